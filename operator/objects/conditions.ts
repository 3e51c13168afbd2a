/** Conditions of any resource: a pass's findings, and how they change the list. */
import type { Condition } from '../../crds/index.ts'
import { shortened } from '../../values/text.ts'
import { timestamp } from '../../values/time.ts'

/** The finding of a pass about one aspect. */
export type Finding = { status: 'True' | 'False' | 'Unknown'; reason: string; message: string }

export const yes = (reason: string, message: string): Finding => ({ status: 'True', reason, message })
export const no = (reason: string, message: string): Finding => ({ status: 'False', reason, message })

/** The reason of Progressing after a successful operation. */
export const completed = 'Completed'

/**
 * The reason of Ready for an object in a namespace where the operator has no rights. Its status is no longer updated.
 */
export const namespaceNotServed = 'NamespaceNotServed'

/** The reason of VolumeReady if data on the disk are damaged. */
export const checksumFailures = 'ChecksumFailures'

/** The conditions in a resource's status. */
type WithConditions = { conditions?: readonly Condition[] | undefined } | undefined

export const conditionOf = (status: WithConditions, type: string): Condition | undefined =>
  status?.conditions?.find(condition => condition.type === type)

/** The conditions of a kind, in the order in which they are listed. */
type ConditionTypes<Type extends string> = {
  all: readonly Type[]
  /** Conditions that are removed if a pass has no finding about them. */
  passing: ReadonlySet<Type>
}

/** `lasting`: conditions that stay unchanged if a pass has no finding about them. They are first in a status. */
export const conditionTypes = <Type extends string>(
  lasting: readonly Type[],
  passing: readonly Type[],
): ConditionTypes<Type> => ({ all: [...lasting, ...passing], passing: new Set(passing) })

/**
 * The conditions after a pass. A condition with the same status keeps the time of its last transition. A condition
 * without a finding stays unchanged, except transient conditions.
 */
export function conditionsAfter<Type extends string>(
  { all, passing }: ConditionTypes<Type>,
  before: readonly Condition[],
  findings: Partial<Record<Type, Finding>>,
  observedGeneration: number | undefined,
  now: number,
): Condition[] {
  return all.flatMap(type => {
    const previous = before.find(condition => condition.type === type)
    const finding = findings[type]
    if (finding === undefined) return previous === undefined || passing.has(type) ? [] : [previous]
    const message = shortened(finding.message, 1000)
    const unchanged = previous?.status === finding.status
    const lastTransitionTime = unchanged ? previous.lastTransitionTime : timestamp(now)
    const generation = observedGeneration === undefined ? {} : { observedGeneration }
    return [{ type, ...finding, message, ...generation, lastTransitionTime }]
  })
}
