/** Tests the deletion of a volume that a move replaced. The volume from which the branch serves is never deleted. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Cluster } from '../../cluster/index.ts'
import { type Branch, childNames, labels } from '../../crds/index.ts'
import { ownerUidAnnotation } from '../objects/ownership.ts'
import { branchDraft } from '../testing/branches.ts'
import { type Installation, openInstallation, testNamespace } from '../testing/installation.ts'
import { deleteReplaced } from './replaced.ts'

const id = '8b1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f'
let installation: Installation
let cluster: Cluster
beforeEach(async () => {
  installation = await openInstallation({ fakes: false })
  cluster = installation.cluster
})
afterEach(() => installation.close())

const claimKey = (incarnation: number) => ({ namespace: testNamespace, name: childNames.claim(id, incarnation) })
const claimOf = (incarnation: number) => cluster.get('PersistentVolumeClaim', claimKey(incarnation))

/** A branch with two volumes. `more`: fields of `status.move`. */
async function branch(
  serving: number,
  more: Partial<NonNullable<NonNullable<Branch['status']>['move']>>,
): Promise<Branch> {
  const made = await cluster.create('Branch', branchDraft('b', { name: 'shop', id }, { target: { lsn: '0/2' } }, id))
  const uids = new Map<number, string>()
  for (const incarnation of [1, 2]) {
    const metadata = {
      ...claimKey(incarnation),
      labels: { [labels.database]: id },
      annotations: { [ownerUidAnnotation]: made.metadata.uid ?? '' },
    }
    const spec = { accessModes: ['ReadWriteOncePod'], resources: { requests: { storage: '1Gi' } } }
    const claim = await cluster.create('PersistentVolumeClaim', {
      ...{ apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata, spec },
    })
    uids.set(incarnation, claim.metadata.uid ?? '')
  }
  const source = { backupName: 'd', systemIdentifier: '7', id, recordedAt: '2026-01-01T00:00:00Z' }
  const volumeOf = (incarnation: number) => ({
    ...{ claim: claimKey(incarnation).name, uid: uids.get(incarnation) ?? '', systemIdentifier: '7' },
  })
  const move = { target: { lsn: '0/2' }, taskId: 't', incarnation: 2, startedAt: '2026-01-01T00:00:00Z', ...more }
  const previous = { incarnation: 1, volume: volumeOf(1), source }
  const kept = move.error === undefined ? { ...move, previous } : move
  const status = { phase: 'available' as const, incarnation: serving, volume: volumeOf(serving), source, move: kept }
  return cluster.replaceStatus('Branch', { ...made, status })
}
const endedAt = '2026-01-01T00:01:00Z'
const replaced = (incarnation: number) => ({ incarnation, claimUid: undefined })

test('deletes the previous volume, and reports when nothing is left', async () => {
  const moved = await branch(2, { endedAt })
  expect(await deleteReplaced(cluster, moved, replaced(1))).toBe(false)
  expect(await claimOf(1)).toBeUndefined()
  expect(await deleteReplaced(cluster, moved, replaced(1))).toBe(true)
  expect(await claimOf(2)).toBeDefined()
})

test('deletes the volume of a failed move', async () => {
  const returned = await branch(1, { endedAt, error: 'why' })
  await deleteReplaced(cluster, returned, replaced(2))
  expect([await claimOf(1), await claimOf(2)]).toEqual([expect.anything(), undefined])
})

test.each<[string, number, object, number]>([
  ['from which the branch serves', 2, { endedAt }, 2],
  ['from which the branch serves again after a failed move', 1, { endedAt, error: 'why' }, 1],
  ['during the move', 2, {}, 1],
])('does not delete a volume %s', async (_, serving, more, incarnation) => {
  const found = await branch(serving, more)
  expect(await deleteReplaced(cluster, found, replaced(incarnation))).toBe(false)
  expect(await Promise.all([claimOf(1), claimOf(2)])).toEqual([expect.anything(), expect.anything()])
})

test('does not delete a volume if the Branch was recreated, or if the claim has another uid or owner', async () => {
  const moved = await branch(2, { endedAt })
  const other = { ...moved, metadata: { ...moved.metadata, uid: 'other' } }
  expect(await deleteReplaced(cluster, other, replaced(1))).toBe(false)
  expect(await deleteReplaced(cluster, moved, { incarnation: 1, claimUid: 'another' })).toBe(true)
  expect(await claimOf(1)).toBeDefined()
  const claim = await claimOf(1)
  if (claim === undefined) throw new Error('there is no claim')
  const annotations = { [ownerUidAnnotation]: 'another' }
  await cluster.replace('PersistentVolumeClaim', { ...claim, metadata: { ...claim.metadata, annotations } })
  expect(await deleteReplaced(cluster, moved, replaced(1))).toBe(true)
  expect(await claimOf(1)).toBeDefined()
})
