/**
 * A database that serves and has all that was asked, as a pass finds it, and the same but for what a test says: for tables
 * of what is decided for each.
 */

import { type Condition, labels, type ManagedDatabase } from '../../crds/index.ts'
import type { RouteFacts } from '../endpoint/observed.ts'
import { isAtRest, type Observed } from '../managed-database/observed.ts'
import { type Plan, plan } from '../managed-database/plan/index.ts'
import type { PostgresAnswer, PostgresFacts } from '../member/observed.ts'
import { noRestarts } from '../member/pod/plan/restart-marks.ts'
import type { PodFacts } from '../member/pod/pod.ts'
import type { Action } from '../workload/actions.ts'
import { type Assessment, assess } from '../workload/plan/assessment.ts'
import { nextActions } from '../workload/plan/next-actions.ts'
import { emptyWorld, observedIn, round, settings } from './plan-world.ts'

type Answered = Extract<PostgresAnswer, { state: 'answered' }>
type Children = Observed['children']
type Found = { [Name in Exclude<keyof Children, 'disruptionBudget'>]: NonNullable<Children[Name]> }

/** What differs. Of a part that is given as undefined, there is none. */
export type Given = {
  metadata?: Partial<ManagedDatabase['metadata']>
  spec?: Partial<ManagedDatabase['spec']>
  status?: Partial<NonNullable<ManagedDatabase['status']>>
  conditions?: Partial<Record<string, Partial<Condition>>>
  children?: Partial<Observed['children']>
  pod?: Partial<PodFacts> | undefined
  route?: Partial<RouteFacts> | undefined
  postgres?: Partial<PostgresFacts> | undefined
  answer?: Partial<Answered> | Extract<PostgresAnswer, { state: 'refused' }> | undefined
  configuration?: Partial<Answered['configuration']>
  rest?: Partial<Observed>
}

const refused = (answer: Given['answer']) => (answer?.state === 'refused' ? answer : undefined)

function postgresOf({ postgres }: Observed, given: Given): PostgresFacts | undefined {
  const answered = postgres?.answer
  if (answered?.state !== 'answered') throw new Error('it serves')
  if (Object.hasOwn(given, 'postgres') && given.postgres === undefined) return undefined
  const configuration = { ...answered.configuration, ...given.configuration }
  const answer = refused(given.answer) ?? { ...answered, ...given.answer, configuration }
  const isSilent = Object.hasOwn(given, 'answer') && given.answer === undefined
  return { ...postgres, answer: isSilent ? undefined : answer, ...given.postgres } as PostgresFacts
}

function conditionsOf({ database }: Observed, { conditions = {}, status }: Given): Condition[] {
  const before = status?.conditions ?? database.status?.conditions ?? []
  const added = Object.keys(conditions).filter(type => before.every(condition => condition.type !== type))
  const none = { status: 'False' as const, reason: 'None', message: '', lastTransitionTime: '2026-01-01T00:00:00Z' }
  return [...before, ...added.map(type => ({ type, ...none }))].map(condition => ({
    ...condition,
    ...conditions[condition.type],
  }))
}

function changed(settled: Observed, given: Given): Observed {
  const isGone = (field: keyof Given) => Object.hasOwn(given, field) && given[field] === undefined
  const { database } = settled
  const instance: ManagedDatabase = {
    ...database,
    metadata: { ...database.metadata, ...given.metadata },
    spec: { ...database.spec, ...given.spec },
    status: { ...database.status, ...given.status, conditions: conditionsOf(settled, given) },
  }
  return {
    ...settled,
    instance,
    database: instance,
    isAtRest: isAtRest(instance),
    children: { ...settled.children, ...given.children },
    pod: isGone('pod') ? undefined : ({ ...settled.pod, ...given.pod } as PodFacts),
    route: isGone('route') ? undefined : ({ ...settled.route, ...given.route } as RouteFacts),
    postgres: postgresOf(settled, given),
    ...given.rest,
  }
}

/** Found anew for each file of tests, so that nothing of one is left to another. */
export function settledDatabase() {
  const world = emptyWorld()
  for (let count = 0; count < 15; count++) round(world)
  const settled = observedIn(world)
  const { owner, children } = settled
  const { status } = settled.database
  if (owner === undefined || status?.phase !== 'available') throw new Error('it serves')
  const { now } = world
  const observedOf = (given: Given = {}): Observed => changed(settled, given)
  /** What a pass makes of it, for an owner that asks for no restart but those that are given. */
  const assessmentOf = (given: Given = {}, restarts = noRestarts): Assessment =>
    assess(observedOf(given), owner, now, restarts)
  /** What is done about it. */
  const actionsOf = (given: Given = {}, restarts = noRestarts): Action[] =>
    nextActions(observedOf(given), assessmentOf(given, restarts))
  const planOf = (given: Given = {}, at = now): Plan => plan(observedOf(given), at, settings)
  /** `now`: when all of this is found, in ms since the epoch. */
  return { now, owner, status, children: children as Found, observedOf, assessmentOf, actionsOf, planOf }
}

const withoutRole = ({ [labels.role]: _, ...others }: Record<string, string> = {}) => others

/** The objects of a database from before its pods had roles. */
export function beforeRoles({ service, statefulSet, pod }: Pick<Found, 'service' | 'statefulSet' | 'pod'>) {
  const { spec } = statefulSet
  const { metadata } = spec?.template ?? {}
  return {
    service: { ...service, spec: { ...service.spec, selector: withoutRole(service.spec?.selector) } },
    pod: { ...pod, metadata: { ...pod.metadata, labels: withoutRole(pod.metadata.labels) } },
    statefulSet: {
      ...statefulSet,
      ...(spec && {
        spec: {
          ...spec,
          template: { ...spec.template, metadata: { ...metadata, labels: withoutRole(metadata?.labels) } },
        },
      }),
    },
  }
}
