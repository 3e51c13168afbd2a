/** Conditions of any resource: what a pass finds about an aspect, and how the list of them changes by it. */
import type { Condition } from '../../crds/index.ts'
import { timestamp } from '../../values/time.ts'

/** What a pass found about one aspect. */
export type Finding = { status: 'True' | 'False' | 'Unknown'; reason: string; message: string }

export const yes = (reason: string, message: string): Finding => ({ status: 'True', reason, message })
export const no = (reason: string, message: string): Finding => ({ status: 'False', reason, message })

/** The reason of a Progressing that has ended well. */
export const completed = 'Completed'

/** The reason of a Ready of an object whose namespace the operator has no rights in. Its status is not updated any more. */
export const namespaceNotServed = 'NamespaceNotServed'

/** The reason of a VolumeReady whose data on the disk are damaged. */
export const checksumFailures = 'ChecksumFailures'

/** A resource's status, as far as its conditions go. */
type WithConditions = { conditions?: readonly Condition[] | undefined } | undefined

export const conditionOf = (status: WithConditions, type: string): Condition | undefined =>
  status?.conditions?.find(condition => condition.type === type)

/** The conditions of a kind, in the order in which they are listed. */
type ConditionTypes<Type extends string> = {
  all: readonly Type[]
  /** Gone as soon as a pass finds nothing of them. */
  passing: ReadonlySet<Type>
}

/** `lasting`: those that stay as they were where a pass finds nothing of them. They come first in a status. */
export const conditionTypes = <Type extends string>(
  lasting: readonly Type[],
  passing: readonly Type[],
): ConditionTypes<Type> => ({ all: [...lasting, ...passing], passing: new Set(passing) })

/**
 * The conditions after a pass. One whose status is the same keeps the time of its last transition; one that a pass
 * found nothing about stays as it was, but those that are only there while something is so.
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
    const message = finding.message.slice(0, 1000)
    const unchanged = previous?.status === finding.status
    const lastTransitionTime = unchanged ? previous.lastTransitionTime : timestamp(now)
    const generation = observedGeneration === undefined ? {} : { observedGeneration }
    return [{ type, ...finding, message, ...generation, lastTransitionTime }]
  })
}
