/** A branch from the archive: its source, the refused targets, and its volume. */
import { describe, expect, test } from 'vitest'
import { type Backup, labels, type RestoreTarget } from '../../../crds/index.ts'
import { parseInstanceConfiguration } from '../../../instance/configuration.ts'
import { recoveryOf } from '../../backup/recovery.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { suspensionBlock } from '../../objects/suspension-block.ts'
import { branchSettings, type GivenBranch, none, reconciledBranch } from '../../testing/reconciled-branch.ts'
import { instanceOf, type Observed } from '../observed.ts'
import { plan } from './index.ts'

const { now, ago, root, observedOf, planOf } = reconciledBranch()
const reconciled = observedOf()
const databaseId = '5e1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f'
const backupId = '0190bbbb-0000-7000-8000-000000000001'
const pods = { ...reconciled.podSettings, archive: { url: 'https://archive.test:8443' } }
const sizeBytes = 10 * 2 ** 20 * 60

const source = {
  ...root,
  metadata: { ...root.metadata, labels: { [labels.id]: databaseId } },
  spec: { ...root.spec, backup: { ...root.spec.backup, durable: true } },
  status: { ...root.status, archive: { incarnation: 1, archived: '0/9000000', archivedAt: '2026-01-31T13:00:00Z' } },
}
const durable: Backup = {
  apiVersion: reconciled.branch.apiVersion as Backup['apiVersion'],
  kind: 'Backup',
  metadata: { name: 'one-1', namespace: 'n', labels: { [labels.id]: backupId } },
  spec: { databaseName: 'one', databaseId, kind: 'durable', purpose: 'user' },
  status: {
    ...{ phase: 'completed', incarnation: 1, cutAt: '2026-01-31T12:00:00Z', endLsn: '0/5000000' },
    ...{ systemIdentifier: '7', sizeBytes },
  },
}
const record = { backupName: 'one-1', backupId, incarnation: 1, systemIdentifier: '7', sizeBytes }

const bare: Partial<Observed> = {
  ...{ children: none(reconciled.children, undefined), owned: none(reconciled.owned, []), podSettings: pods },
  ...{ pod: undefined, postgres: undefined, route: undefined },
}
const empty = { phase: undefined, volume: undefined, connectableAt: undefined, conditions: [] }

/** A requested branch without any child object. Only its source exists. */
function requestedBranch(target: RestoreTarget, { database = source, backup, more = {} }: Given = {}): GivenBranch {
  const recovery = recoveryOf({ target, recorded: undefined, database, backup, backups: [durable] })
  const rest = { ...bare, source: database, root: database, recovery, ...more }
  return { spec: { databaseId, target }, status: { ...empty, source: undefined }, rest }
}
type Given = { database?: typeof source; backup?: Backup; more?: Partial<Observed> }
const readyOf = (given: GivenBranch) => {
  const { status } = planOf(given)
  const { reason, message } = conditionOf(status, 'Ready') ?? {}
  return { phase: status.phase, reason, message }
}

describe('the source of a branch with a target', () => {
  const time = '2026-01-31T12:30:00Z'
  const through = '0/9000000'
  test.each<[string, RestoreTarget, Backup | undefined, object]>([
    ['a time', { time }, undefined, { cutAt: time, recovery: { ...record, through } }],
    ['an LSN', { lsn: '0/6000000' }, undefined, { lsn: '0/6000000', recovery: { ...record, through } }],
    ['a named point', { pointName: 'before' }, undefined, { recovery: record }],
    ['a durable backup', { backupName: 'one-1' }, durable, { recovery: record }],
  ])('is recorded before anything is created, if the target is %s', (_, target, backup, expected) => {
    const { actions, status } = planOf(requestedBranch(target, backup === undefined ? {} : { backup }))
    expect(actions).toEqual([])
    expect(status).toMatchObject({ phase: 'creating', operation: { name: 'create-branch' } })
    expect(status.source).toEqual({
      ...{ backupName: 'one-1', systemIdentifier: '7', id: databaseId, sizeBytes, recordedAt: ago(0), target },
      ...expected,
    })
  })

  test('is recorded even if the region has no snapshot class; the branch does not block a suspension of the database', () => {
    const region = reconciled.region && {
      ...reconciled.region,
      spec: { ...reconciled.region.spec, snapshotClass: undefined },
    }
    const given = requestedBranch({ time }, { more: { region: region as Observed['region'] } })
    expect(planOf(given).status.source).toBeDefined()
    const branch = observedOf(given).branch
    expect(suspensionBlock([], [branch])).toBeUndefined()
    const { target: _, ...copied } = branch.spec
    expect(suspensionBlock([], [{ ...branch, spec: copied }])).toMatchObject({ reason: 'AwaitsBranch' })
  })

  const off = { ...source, spec: { ...source.spec, backup: { ...source.spec.backup, durable: false } } }
  const hot: Backup = { ...durable, spec: { ...durable.spec, kind: 'hot' } }
  test.each<[string, GivenBranch, string, RegExp]>([
    [
      'a time outside the window',
      requestedBranch({ time: '2026-01-31T11:00:00Z' }),
      'OutsideWindow',
      /2026-01-31T12:00:00.000Z to 2026-01-31T13:00:00.000Z/,
    ],
    [
      'a time of a database without the durable tier',
      requestedBranch({ time }, { database: off }),
      'NoDurableTier',
      /spec.backup.durable/,
    ],
    ['a hot backup', requestedBranch({ backupName: 'one-1' }, { backup: hot }), 'BackupNotDurable', /one-1/],
    ['a backup that does not exist', requestedBranch({ backupName: 'gone' }), 'BackupNotDurable', /gone/],
  ])('is not recorded, and the branch fails, if the target is %s', (_, given, reason, message) => {
    expect(readyOf(given)).toMatchObject({ phase: 'failed', reason, message: expect.stringMatching(message) })
    expect(planOf(given).actions).toEqual([])
  })
})

describe('a branch from the archive', () => {
  const target = { lsn: '0/6000000' }
  const recovery = { ...record, through: '0/9000000' }
  const begun = {
    ...{ backupName: 'one-1', recovery, systemIdentifier: '7', id: databaseId, sizeBytes, recordedAt: ago(0) },
    ...target,
  }
  const made = (rest: Partial<Observed> = {}, status = {}, settings: Observed['podSettings'] = pods): Observed => {
    const observed = observedOf({ spec: { databaseId, target }, status: { ...empty, source: begun, ...status } })
    const { credentials, certificate } = reconciled
    const seen = { ...observed, ...bare, credentials, certificate, source: undefined, root: source, ...rest }
    return { ...seen, podSettings: settings, instance: instanceOf(observed.branch, now, settings) }
  }

  test("gets an empty volume; the init container reads the data from the source's archive", () => {
    const { actions } = plan(made(), now, branchSettings)
    const claim = actions.find(action => action.do === 'create-claim')
    expect(claim).toBeDefined()
    expect(JSON.stringify(claim)).not.toContain('"dataSource"')
    const issued = actions.find(action => action.do === 'issue-archive-source')
    expect(issued).toMatchObject({ source: { id: databaseId, recover: { id: databaseId, incarnation: 1 } } })
    const drafts = actions.flatMap(action => (action.do === 'apply' ? [action.draft] : []))
    const map = drafts.find(draft => draft.kind === 'ConfigMap' && draft.data?.['instance.json'] !== undefined)
    const text = map?.kind === 'ConfigMap' ? (map.data?.['instance.json'] ?? '') : ''
    expect(parseInstanceConfiguration(text)).toMatchObject({
      initialise: false,
      recover: { id: databaseId, incarnation: 1, backup: backupId, target: { kind: 'lsn', lsn: '0/6000000' } },
    })
  })

  test('can connect to the archive only until status.volume is set', () => {
    const egress = (observed: Observed) => {
      const { actions } = plan(observed, now, branchSettings)
      const policy = actions.flatMap(action =>
        action.do === 'apply' && action.draft.kind === 'NetworkPolicy' ? [action.draft] : [],
      )[0]
      return policy?.spec?.egress?.length ?? 0
    }
    expect(egress(made())).toBe(2)
    expect(egress(made({}, { volume: reconciled.branch.status?.volume }))).toBe(0)
  })

  test('gets no volume if the installation no longer has an archive', () => {
    const { archive: _, ...without } = pods
    const { actions, status } = plan(made({}, {}, without), now, branchSettings)
    expect(actions.some(action => action.do === 'create-claim')).toBe(false)
    expect(conditionOf(status, 'Progressing')).toMatchObject({ reason: 'NoArchive' })
  })

  const { configuration, statefulSet, service, networkPolicy, disruptionBudget, claim } = reconciled.children
  const unfilled = {
    ...{ configuration, statefulSet, service, networkPolicy, disruptionBudget },
    claim: claim && { ...claim, metadata: { ...claim.metadata, annotations: {} } },
  }
  test("has Progressing=Recovering during recovery, and a deadline that depends on the base backup's size", () => {
    const pod = reconciled.pod && { ...reconciled.pod, address: undefined, ready: false }
    const observed = made({ pod, children: { ...none(reconciled.children, undefined), ...unfilled } })
    const { status } = plan(observed, now, branchSettings)
    expect(conditionOf(status, 'Progressing')?.reason).toBe('Recovering')
    const failsAt = now + branchSettings.creatingMs + 60_000
    expect(plan(observed, failsAt - 2_000, branchSettings).status.phase).toBe('creating')
    expect(conditionOf(plan(observed, failsAt, branchSettings).status, 'Ready')?.reason).toBe('DeadlineExceeded')
  })

  test('fails with NotRecovered if an older operator version copied the current data', () => {
    const copied = { ...begun, snapshotName: 'bkp', recovery: undefined }
    const observed = made({}, { source: copied })
    expect(conditionOf(plan(observed, now, branchSettings).status, 'Ready')?.reason).toBe('NotRecovered')
  })
})
