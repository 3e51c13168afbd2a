/**
 * A branch that serves with its complete request applied, as a pass observes it. Tests pass changes, for tables of
 * decisions. Its Postgres is that of `reconciled-database.ts`, whose children the branch now owns.
 */
import type { AnyObject } from '../../cluster/index.ts'
import { apiVersion, type Branch, type Condition, labels, teardownFinalizer } from '../../crds/index.ts'
import { timestamp } from '../../values/time.ts'
import type { Action } from '../branch/actions.ts'
import { instanceOf, type Observed } from '../branch/observed.ts'
import { plan } from '../branch/plan/index.ts'
import type { Plan } from '../branch/plan/plan.ts'
import { templateAnnotation } from '../member/pod/stateful-set.ts'
import { ownerOf } from '../objects/ownership.ts'
import { reconciledDatabase } from './reconciled-database.ts'

type Status = NonNullable<Branch['status']>

/** The changes. */
export type GivenBranch = {
  metadata?: Partial<Branch['metadata']>
  spec?: Partial<Branch['spec']>
  status?: Partial<Status>
  /** Replaces the condition with that type. */
  conditions?: Partial<Record<string, Partial<Condition>>>
  /** The observed state without the branch. */
  rest?: Partial<Observed>
}

export const branchSettings = { creatingMs: 600_000, maintenanceMs: 300_000, highestDepth: 3 }

/** The written object, if this is the same object. */
const asWritten = (object: AnyObject, written: AnyObject): AnyObject =>
  object.kind === written.kind && object.metadata.name === written.metadata.name
    ? { ...written, metadata: { ...written.metadata, uid: object.metadata.uid } }
    : object

/** The cluster's objects after an action that writes a child. */
function written(observed: Observed, action: Action): Observed {
  const object = action.do === 'apply' ? action.draft : action.do === 'label' ? action.object : undefined
  if (object === undefined) return observed
  const one = (part: unknown) => (part === undefined ? part : asWritten(part as AnyObject, object as AnyObject))
  const all = <Parts extends object>(parts: Parts): Parts =>
    Object.fromEntries(
      Object.entries(parts).map(([field, part]) => [field, Array.isArray(part) ? part.map(one) : one(part)]),
    ) as Parts // the same fields
  return { ...observed, children: all(observed.children), owned: all(observed.owned) }
}

function conditionsOf({ conditions = [] }: Status, given: NonNullable<GivenBranch['conditions']>): Condition[] {
  const added = Object.keys(given).filter(type => conditions.every(condition => condition.type !== type))
  const none = { status: 'False' as const, reason: 'None', message: '', lastTransitionTime: '2026-01-01T00:00:00Z' }
  return [...conditions, ...added.map(type => ({ type, ...none }))].map(each => ({ ...each, ...given[each.type] }))
}

/** Creates a new one for each test file, so that tests share no state. */
export function reconciledBranch() {
  const { now, owner, observedOf: ofDatabase } = reconciledDatabase()
  const found = ofDatabase()
  const root = {
    ...found.database,
    metadata: { ...found.database.metadata, uid: 'root', labels: { [labels.id]: 'i' } },
  }
  const { region, size, pgVersion, ipAllowlist } = root.spec
  const { volume, incarnation, endpoint, domain, instances, size: inForce } = root.status ?? {}
  const made: Branch = {
    apiVersion,
    kind: 'Branch',
    metadata: { ...found.database.metadata, name: 'one-copy', finalizers: [teardownFinalizer] },
    spec: {
      ...{ databaseName: 'one', databaseId: 'i', depth: 1, services: [], options: [] },
      ...{ region, size, pgVersion, ipAllowlist },
    },
    status: {
      ...{ phase: 'creating', volume, incarnation, endpoint, domain, instances, size: inForce },
      source: {
        ...{ backupName: 'prebranch', snapshotName: 'bkp', lsn: '0/2', systemIdentifier: '7', id: 'i' },
        recordedAt: timestamp(now - 60_000),
      },
    },
  }
  const observedAs = (seen: Omit<Observed, 'branch'>, branch: Branch): Observed => ({
    ...seen,
    branch,
    instance: instanceOf(branch, now, seen.podSettings),
    owner: ownerOf(branch, owner.id),
    identity: { state: 'settled', owner: ownerOf(branch, owner.id) },
    isAtRest: branch.status?.phase === 'available' && branch.status.operation === undefined,
  })
  const nothing = {
    source: undefined,
    root,
    backup: undefined,
    exceeded: undefined,
    task: undefined,
    clockDistrust: undefined,
  }
  const knownRegion = found.region && {
    ...found.region,
    spec: { ...found.region.spec, snapshotClass: { name: 'fast', atomic: true } },
  }
  let seen = observedAs({ ...found, ...nothing, region: knownRegion }, made)
  for (let pass = 0; pass < 4; pass++) {
    const { actions, status } = plan(seen, now, branchSettings)
    seen = observedAs(actions.reduce(written, seen), { ...made, status })
    const template = seen.children.statefulSet?.spec?.template.metadata?.annotations?.[templateAnnotation]
    if (seen.pod) seen = { ...seen, pod: { ...seen.pod, template } }
  }
  const { operation: _, ...reconciled } = seen.branch.status ?? {}
  if (reconciled.phase !== 'available') throw new Error('the branch does not serve')

  const observedOf = ({ metadata, spec, status, conditions = {}, rest }: GivenBranch = {}): Observed => {
    const merged = { ...reconciled, ...status }
    const branch: Branch = {
      ...made,
      metadata: { ...made.metadata, ...metadata },
      spec: { ...made.spec, ...spec },
      status: { ...merged, conditions: conditionsOf(merged, conditions) },
    }
    return { ...observedAs(seen, branch), ...rest }
  }
  const planOf = (given: GivenBranch = {}, at = now, settings = branchSettings): Plan =>
    plan(observedOf(given), at, settings)
  const ago = (ms: number): string => timestamp(now - ms)
  return { now, ago, id: owner.id, status: reconciled, root, observedOf, planOf }
}

/** Returns `parts` with `nothing` in every field. */
export const none = <Parts extends object>(parts: Parts, nothing: undefined | never[]): Parts =>
  Object.fromEntries(Object.keys(parts).map(field => [field, nothing])) as Parts // has the fields of `parts`
