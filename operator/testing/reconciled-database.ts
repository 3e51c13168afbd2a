/**
 * A database that serves with its complete request applied, as a pass observes it. Tests pass changes, for tables of
 * decisions.
 */

import { type Condition, labels, type ManagedDatabase } from '../../crds/index.ts'
import type { RouteFacts } from '../endpoint/observed.ts'
import { isAtRest, type Observed } from '../managed-database/observed.ts'
import { type Plan, plan } from '../managed-database/plan/index.ts'
import type { PostgresAnswer, PostgresFacts } from '../member/observed.ts'
import { noRestarts } from '../member/pod/plan/restart-annotations.ts'
import type { PodFacts } from '../member/pod/pod.ts'
import type { Action } from '../workload/actions.ts'
import { type Assessment, assess } from '../workload/plan/assessment.ts'
import { nextActions } from '../workload/plan/next-actions.ts'
import { emptyClusterState, observedIn, round, settings } from './cluster-state.ts'

type Answered = Extract<PostgresAnswer, { state: 'answered' }>
type Children = Observed['children']
type Found = { [Name in Exclude<keyof Children, 'disruptionBudget'>]: NonNullable<Children[Name]> }

/** The changes. If a part is given as undefined, it is absent. */
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
  if (answered?.state !== 'answered') throw new Error('the database does not serve')
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

function changed(reconciled: Observed, given: Given): Observed {
  const isDeleted = (field: keyof Given) => Object.hasOwn(given, field) && given[field] === undefined
  const { database } = reconciled
  const instance: ManagedDatabase = {
    ...database,
    metadata: { ...database.metadata, ...given.metadata },
    spec: { ...database.spec, ...given.spec },
    status: { ...database.status, ...given.status, conditions: conditionsOf(reconciled, given) },
  }
  return {
    ...reconciled,
    instance,
    database: instance,
    isAtRest: isAtRest(instance),
    children: { ...reconciled.children, ...given.children },
    pod: isDeleted('pod') ? undefined : ({ ...reconciled.pod, ...given.pod } as PodFacts),
    route: isDeleted('route') ? undefined : ({ ...reconciled.route, ...given.route } as RouteFacts),
    postgres: postgresOf(reconciled, given),
    ...given.rest,
  }
}

/** Creates a new one for each test file, so that tests share no state. */
export function reconciledDatabase() {
  const clusterState = emptyClusterState()
  for (let count = 0; count < 15; count++) round(clusterState)
  const reconciled = observedIn(clusterState)
  const { owner, children } = reconciled
  const { status } = reconciled.database
  if (owner === undefined || status?.phase !== 'available') throw new Error('the database does not serve')
  const { now } = clusterState
  const observedOf = (given: Given = {}): Observed => changed(reconciled, given)
  /** The plan of a pass. The owner requests no restart except the given ones. */
  const assessmentOf = (given: Given = {}, restarts = noRestarts): Assessment =>
    assess(observedOf(given), owner, now, restarts)
  /** The planned actions. */
  const actionsOf = (given: Given = {}, restarts = noRestarts): Action[] =>
    nextActions(observedOf(given), assessmentOf(given, restarts))
  const planOf = (given: Given = {}, at = now): Plan => plan(observedOf(given), at, settings)
  /** `now`: the time of the observation, in ms since the epoch. */
  return { now, owner, status, children: children as Found, observedOf, assessmentOf, actionsOf, planOf }
}

const withoutRole = ({ [labels.role]: _, ...others }: Record<string, string> = {}) => others

/** The objects of a database from before pods had role labels. */
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
