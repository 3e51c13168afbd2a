/** Tests a branch before its source is recorded: refusals, the requested backup, and the status. */
import { describe, expect, test } from 'vitest'
import {
  apiVersion,
  type Backup,
  type Branch,
  childNames,
  labels,
  type ManagedDatabase,
  managedByEspalier,
  teardownReason,
} from '../../../crds/index.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { ownerUidAnnotation } from '../../objects/ownership.ts'
import { type GivenBranch, none, reconciledBranch } from '../../testing/reconciled-branch.ts'
import type { Observed } from '../observed.ts'
import { copied, prebranchDraft } from './prebranch.ts'

const { now, ago, id, root, observedOf, planOf } = reconciledBranch()
const reconciled = observedOf()
const { region } = reconciled
if (region === undefined) throw new Error('there is no region')

/** No object of the branch exists. Only its source exists. */
const bare: Partial<Observed> = {
  ...{ source: root, children: none(reconciled.children, undefined), owned: none(reconciled.owned, []) },
  ...{ pod: undefined, postgres: undefined, route: undefined },
  ...{ credentials: { state: 'absent' }, certificate: { state: 'absent' } },
}
const fresh = ({ rest, status, ...given }: GivenBranch = {}): GivenBranch => ({
  ...given,
  status: {
    ...{ phase: undefined, source: undefined, volume: undefined, connectableAt: undefined, conditions: [] },
    ...status,
  },
  rest: { ...bare, ...rest },
})
const does = (given: GivenBranch) =>
  planOf(given).actions.map(action => ('kind' in action ? `${action.do} ${action.kind}` : action.do))
const summaryOf = (given: GivenBranch) => {
  const { status } = planOf(given)
  const of = (type: string) => {
    const { status: is, reason } = conditionOf(status, type) ?? {}
    return `${is} ${reason}`
  }
  return { phase: status.phase, ready: of('Ready'), progressing: of('Progressing'), volume: of('VolumeReady') }
}

const prebranch = (status: Backup['status'], more: Partial<Backup['spec']> = {}, metadata = {}): Backup => ({
  apiVersion,
  kind: 'Backup',
  metadata: {
    ...{ name: 'prebranch', namespace: 'n', uid: 'b', labels: { [labels.managedBy]: managedByEspalier } },
    ...metadata,
  },
  spec: { databaseName: 'one', databaseId: 'i', kind: 'hot', purpose: 'prebranch', ...more },
  ...(status === undefined ? {} : { status }),
})
const restorePoint = { snapshotName: 'bkp', endLsn: '0/2', systemIdentifier: '7', cutAt: ago(2_000), sizeBytes: 7 }
const completed = { phase: 'completed' as const, ...restorePoint }
const branchOf = (name: string, depth: number, more: Partial<Branch['spec']> = {}): Branch => ({
  ...reconciled.branch,
  metadata: { ...reconciled.branch.metadata, name, uid: name, labels: { [labels.id]: name } },
  spec: { ...reconciled.branch.spec, depth, ...more },
})

describe('a new branch', () => {
  test('requests a backup of its source, and creates the objects that need no data', () => {
    const actions = does(fresh())
    expect(actions).toEqual(
      expect.arrayContaining([
        'create-backup',
        'mint-credentials',
        'claim-port',
        'apply Service',
        'apply NetworkPolicy',
      ]),
    )
    for (const ofVolume of ['create-claim', 'apply StatefulSet', 'apply ConfigMap'])
      expect(actions).not.toContain(ofVolume)
    const { status, requeueAt } = planOf(fresh())
    expect(summaryOf(fresh())).toEqual({
      ...{ phase: 'creating', ready: 'False NotCopied', volume: 'False NotCopied', progressing: 'True Copying' },
    })
    expect([status.operation?.name, status.operation?.startedAt, requeueAt]).toEqual([
      'create-branch',
      ago(0),
      undefined,
    ])
  })
  test('updates its route before it creates a configuration or StatefulSet', () => {
    const { credentials, certificate, owned, route } = reconciled
    const unlabelled = reconciled.children.route && { ...reconciled.children.route }
    const stale = unlabelled && { ...unlabelled, data: {}, metadata: { ...unlabelled.metadata, annotations: {} } }
    const children = { ...none(reconciled.children, undefined), route: stale }
    const rest = { children, owned: { ...owned, routes: [] }, route, credentials, certificate }
    const written = planOf(fresh({ rest })).actions.flatMap(action =>
      action.do === 'apply' ? [action.draft.metadata.name] : [],
    )
    expect(written).toContain(stale?.metadata.name)
    expect(written).not.toContain(childNames.configuration(id, 1))
    expect(written).not.toContain(childNames.statefulSet(id, 1))
  })
  test('with a claim that already exists gets no StatefulSet before its source is recorded', () => {
    const { claim } = reconciled.children
    const remaining = claim && {
      ...claim,
      metadata: { ...claim.metadata, annotations: { [ownerUidAnnotation]: reconciled.branch.metadata.uid ?? '' } },
    }
    const children = {
      ...none(reconciled.children, undefined),
      claim: remaining,
      configuration: reconciled.children.configuration,
    }
    const { credentials, certificate } = reconciled
    const actions = does(fresh({ rest: { children, credentials, certificate } }))
    expect(actions).toContain('apply Service')
    expect(actions).not.toContain('apply StatefulSet')
  })
  test("requests a backup that has the branch's id in its name, and the operator's finalizer", () => {
    const { branch } = reconciled
    const draft = prebranchDraft(branch, id, false)
    expect(draft).toStrictEqual({
      ...{ apiVersion, kind: 'Backup' },
      metadata: {
        ...{ name: childNames.prebranch(id), namespace: branch.metadata.namespace },
        labels: { [labels.managedBy]: 'espalier' },
        annotations: { 'espalier.dev/single-use': 'true' },
        finalizers: ['espalier.dev/teardown'],
      },
      spec: { databaseName: 'one', databaseId: 'i', kind: 'hot', purpose: 'prebranch' },
    })
    expect(planOf(fresh()).actions).toContainEqual({ do: 'create-backup', draft })
    const sourceBranch = { name: 'first', id: 'f' }
    const ofTenant = { ...branch, metadata: { ...branch.metadata, labels: { [labels.tenant]: 't' } } }
    const deeper = prebranchDraft({ ...ofTenant, spec: { ...branch.spec, sourceBranch } }, id, true)
    expect(deeper.metadata.labels).toEqual({ [labels.managedBy]: 'espalier', [labels.tenant]: 't' })
    expect(deeper.spec).toMatchObject({ databaseId: 'i', sourceBranch })
  })
  test('requests its backup without the annotation `espalier.dev/single-use` if retention keeps the backup', () => {
    const { branch, root } = reconciled
    if (root === undefined) throw new Error('there is no database')
    const backup = { durable: false, retention: { hot: { prebranch: { days: 3 } } } }
    const retained = { ...root, spec: { ...root.spec, backup } }
    expect(planOf(fresh({ rest: { root: retained } })).actions).toContainEqual({
      ...{ do: 'create-backup', draft: prebranchDraft(branch, id, true) },
    })
    expect(prebranchDraft(branch, id, true).metadata.annotations).toBeUndefined()
  })
  test('that has a backup requests no other backup, and reports what the backup waits for', () => {
    const progressing = {
      type: 'Progressing',
      status: 'True' as const,
      reason: 'R',
      message: 'm',
      lastTransitionTime: ago(0),
    }
    const waits = (conditions: NonNullable<Backup['status']>['conditions']) =>
      fresh({ rest: { backup: prebranch({ phase: 'running', conditions }) } })
    expect(does(waits([]))).not.toContain('create-backup')
    const messageOf = (given: GivenBranch) => conditionOf(planOf(given).status, 'Progressing')?.message
    expect(messageOf(waits([progressing]))).toBe('m')
    expect(messageOf(waits([]))).toBe('waiting for a snapshot')
    expect(messageOf(fresh())).toBe('requesting a snapshot of the source')
    expect(planOf(waits([])).status.source).toBeUndefined()
  })
  test('records the completed copy before it creates the volume', () => {
    const { status, actions } = planOf(fresh({ rest: { backup: prebranch(completed) } }))
    expect(status.source).toMatchObject({ snapshotName: 'bkp', recordedAt: ago(0) })
    expect([status.phase, actions.some(({ do: what }) => what === 'create-claim')]).toEqual(['creating', false])
  })
  test('gets the phase failed if its copy fails; the plan creates nothing more', () => {
    const given = fresh({ rest: { backup: prebranch({ phase: 'failed', error: 'why' }) } })
    expect(planOf(given).actions).toEqual([])
    expect(summaryOf(given)).toMatchObject({
      phase: 'failed',
      ready: 'False BackupFailed',
      progressing: 'False BackupFailed',
    })
    expect(planOf(given).status.operation?.name).toBe('create-branch')
  })
})

describe('a copy', () => {
  const { branch } = reconciled
  const stored = { ...root, status: { ...root.status, storage: { capacity: '2Gi', since: ago(0) } } }
  const ready = {
    type: 'Ready',
    status: 'False' as const,
    reason: 'NotAtomic',
    message: 'm',
    lastTransitionTime: ago(0),
  }
  const source = {
    ...{ backupName: 'prebranch', snapshotName: 'bkp', cutAt: ago(2_000), lsn: '0/2', systemIdentifier: '7' },
    ...{ id: 'i', sizeBytes: 7, recordedAt: ago(0) },
  }
  const { sizeBytes: _, ...sizeless } = completed
  const { cutAt: __, ...timeless } = completed
  const { sizeBytes: ___, ...unsized } = source
  const { cutAt: ____, ...untimed } = source

  test.each<[string, Backup['status'], ManagedDatabase | undefined, object]>([
    ['is recorded with the size that the storage reports', completed, stored, source],
    [
      'is recorded with the capacity of its source if the storage reports no size',
      sizeless,
      stored,
      { ...source, sizeBytes: 2 * 1024 ** 3 },
    ],
    ['is recorded without a size if neither storage nor source reports a size', sizeless, root, unsized],
    ['is recorded even if its source no longer exists', sizeless, undefined, unsized],
    ['has no cutAt if the backup reports no cutAt', timeless, root, untimed],
  ])('%s', (_case, status, of, expected) => {
    expect(copied(prebranch(status), branch, of, now)).toEqual({ state: 'completed', source: expected })
  })
  test('of a branch is recorded with the id of the source branch', () => {
    const sourceBranch = { name: 'first', id: 'f' }
    const deeper = { ...branch, spec: { ...branch.spec, sourceBranch } }
    expect(copied(prebranch(completed, { sourceBranch }), deeper, root, now)).toMatchObject({ source: { id: 'f' } })
  })
  test.each<[string, Backup, RegExp]>([
    [
      'NameTaken',
      prebranch(completed, { purpose: 'user' }),
      /^the backup prebranch was not taken for this branch; delete this branch, and create it again$/,
    ],
    ['NameTaken', prebranch(completed, { databaseId: 'other' }), /was not taken for this branch/],
    ['NameTaken', prebranch(completed, {}, { labels: {} }), /prebranch was not taken for this branch/],
    ['NameTaken', prebranch(completed, { databaseName: 'other' }), /was not taken for this branch/],
    ['NameTaken', prebranch(completed, { kind: 'durable' }), /was not taken for this branch/],
    ['NameTaken', prebranch(completed, { purpose: 'user' }), /was not taken for this branch/],
    ['NameTaken', prebranch(completed, { sourceBranch: { name: 'first', id: 'f' } }), /was not taken for this branch/],
    [
      'NotAtomic',
      prebranch({ phase: 'failed', error: 'why', conditions: [ready] }),
      /^the source could not be copied: why$/,
    ],
    ['NotAtomic', prebranch({ phase: 'failed', conditions: [ready] }), /: m$/],
    ['BackupFailed', prebranch({ phase: 'failed' }), /^the source could not be copied: no reason was reported$/],
    [
      'SnapshotDeleted',
      prebranch(completed, {}, { deletionTimestamp: ago(0) }),
      /^the branch's source backup was deleted before the copy was complete; /,
    ],
    [
      'SnapshotDeleted',
      prebranch({ phase: 'running' }, {}, { deletionTimestamp: ago(0) }),
      /^the branch's source backup was deleted before the copy was complete; /,
    ],
    [
      'SnapshotUnknown',
      prebranch({ ...completed, snapshotName: undefined }),
      /^the backup prebranch lacks status\.snapshotName/,
    ],
    ['SnapshotUnknown', prebranch({ ...completed, endLsn: undefined }), /lacks status/],
    ['SnapshotUnknown', prebranch({ ...completed, systemIdentifier: undefined }), /lacks status/],
  ])('fails with the reason %s', (reason, backup, message) => {
    expect(copied(backup, branch, root, now)).toEqual({
      state: 'failed',
      refusal: { reason, message: expect.stringMatching(message) },
    })
  })
  test('is running until its backup has ended', () => {
    for (const status of [undefined, { phase: 'pending' as const }, { phase: 'running' as const }])
      expect(copied(prebranch(status), branch, root, now).state).toBe('running')
  })
})

describe('a branch', () => {
  const sourceBranch = { name: 'first', id: 'f' }
  const parent = branchOf('first', 1)
  const deeper = (spec: Partial<Branch['spec']> = {}) => ({ sourceBranch, depth: 2, ...spec })
  const restoring: ManagedDatabase = {
    ...root,
    metadata: { ...root.metadata, annotations: { 'espalier.dev/restore': '{}' } },
  }
  const deleting: ManagedDatabase = { ...root, metadata: { ...root.metadata, deletionTimestamp: ago(60_000) } }
  const begun: ManagedDatabase = {
    ...root,
    metadata: { ...root.metadata, deletionTimestamp: ago(0) },
    status: {
      phase: 'deleting',
      conditions: [{ type: 'Ready', status: 'False', reason: teardownReason, message: '', lastTransitionTime: ago(0) }],
    },
  }
  const justRequested: GivenBranch = { metadata: { creationTimestamp: ago(0) } }
  const uneven = { ...region, spec: { ...region.spec, snapshotClass: { name: 'slow', atomic: false } } }

  test.each<[string, GivenBranch, RegExp]>([
    [
      'TooDeep',
      { spec: deeper({ depth: 4 }), rest: { source: branchOf('first', 3) } },
      /^spec\.depth: 4 is above this installation's maximum of 3; create the branch from a source with a smaller depth$/,
    ],
    ['SourceMissing', { rest: { source: undefined } }, /^there is no database one with the id i$/],
    ['SourceMissing', { spec: deeper(), rest: { source: undefined } }, /^there is no branch first with the id f$/],
    [
      'SourceDeleting',
      { ...justRequested, rest: { source: deleting, root: deleting } },
      /^the database is being deleted$/,
    ],
    ['SourceDeleting', { ...justRequested, spec: deeper(), rest: { source: parent, root: deleting } }, /being deleted/],
    ['SourceDeleting', { ...justRequested, rest: { source: begun, root: begun } }, /being deleted/],
    [
      'SourceMismatch',
      { spec: { depth: 2 } },
      /^spec\.depth: is 2, must be 1 \(the source's depth plus 1\); delete this branch, and create it again with 1$/,
    ],
    ['SourceMismatch', { spec: deeper({ depth: 3 }), rest: { source: parent } }, /must be 2 \(the source/],
    [
      'SourceMismatch',
      { spec: { region: 'there' } },
      /^spec\.region: is "there", must be "here", as in the source; delete this branch, and create it again with "here"$/,
    ],
    [
      'SourceMismatch',
      { spec: { pgVersion: '17' } },
      /^spec\.pgVersion: is "17", must be "18", as in the source; delete this branch, and create it again with "18"$/,
    ],
    [
      'SourceMismatch',
      { spec: deeper(), rest: { source: branchOf('first', 1, { databaseId: 'other' }) } },
      /^spec\.databaseId: is "i", must be "other", as in the source; delete this branch, and create it again with "other"$/,
    ],
    ['NotAtomic', { rest: { region: uneven } }, /slow/],
    ['RegionMissing', { rest: { region: undefined } }, /there is no region here/],
    ['NotAtomic', { rest: { region: uneven, exceeded: 2 } }, /slow/],
    [
      'LimitReached',
      { rest: { exceeded: 2 } },
      /^the database has reached its limit of 2 branches; delete another branch/,
    ],
  ])('is refused with the reason %s', (reason, given, message) => {
    const refused = fresh(given)
    expect(planOf(refused).actions).toEqual([])
    expect(summaryOf(refused)).toMatchObject({
      phase: 'failed',
      ready: `False ${reason}`,
      progressing: `False ${reason}`,
    })
    expect(conditionOf(planOf(refused).status, 'Ready')?.message).toMatch(message)
  })
  test.each<[string, GivenBranch]>([
    [
      'if it is as deep as the installation allows',
      { spec: deeper({ depth: 3 }), rest: { source: branchOf('first', 2) } },
    ],
    ['if its source is a branch', { spec: deeper(), rest: { source: parent } }],
    ['if its database is being restored', { rest: { source: restoring } }],
    [
      'if its source is a branch of a database that is being restored',
      { spec: deeper(), rest: { source: parent, root: restoring } },
    ],
    [
      'after its copy has started, even if its source no longer exists',
      { rest: { source: undefined, exceeded: 2, backup: prebranch({ phase: 'running' }) } },
    ],
  ])('is accepted %s', (_, given) => {
    expect(planOf(fresh(given)).status.phase).toBe('creating')
  })
})
