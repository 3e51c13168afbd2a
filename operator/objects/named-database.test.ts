/**
 * Branches, Backups and Restores as users store them in git: only with the name of their database, and applied
 * repeatedly.
 */
import { expect, test } from 'vitest'
import type { Cluster, Draft, Kinds } from '../../cluster/index.ts'
import { labels } from '../../crds/index.ts'
import { at, useBackups } from '../testing/backups.ts'
import { branchDraft, useBranches } from '../testing/branches.ts'
import { hasCondition, useInstallation } from '../testing/fixture.ts'
import { backupDraft, eventually } from '../testing/installation.ts'
import { conditionOf } from './conditions.ts'
import { databaseReplaced } from './named-database.ts'

const it = useInstallation()
const { when: whenBranch } = useBranches(it)
const { when: whenBackup, taken } = useBackups(it)

/** The object without the id, as a user writes it. */
const withoutId = (spec: Draft<'Branch'>['spec'] | Draft<'Backup'>['spec']) => {
  const { databaseId: _, ...rest } = spec ?? {}
  return rest
}
const named = { id: '' }
const branchManifest = (name: string, database: string): Draft<'Branch'> => {
  const draft = branchDraft(name, { ...named, name: database })
  return { ...draft, spec: withoutId(draft.spec) }
}
const backupManifest = (name: string, database: string): Draft<'Backup'> => {
  const draft = backupDraft(name, { ...named, name: database })
  return { ...draft, spec: withoutId(draft.spec) }
}
const restoreManifest = (name: string, database: string, backupName: string): Draft<'Restore'> => ({
  apiVersion: 'espalier.dev/v1alpha1',
  kind: 'Restore',
  metadata: at(name),
  spec: { databaseName: database, target: { backupName } },
})
const whenRestore = (name: string, isExpected: (found: Kinds['Restore']) => boolean) =>
  eventually(
    () => it.cluster().get('Restore', at(name)),
    found => found !== undefined && isExpected(found),
  )

/** Applies like `kubectl apply --server-side` and Argo CD, each under its own field manager. */
async function applyAgain<K extends 'Branch' | 'Backup' | 'Restore'>(kind: K, manifest: Draft<K>): Promise<void> {
  const before = await it.cluster().get(kind, manifest.metadata)
  for (const manager of ['git', 'argocd-controller', 'git']) {
    const other: Cluster = it.installation().store.connect(manager)
    const applied = await other.apply(kind, manifest)
    expect(applied.spec).toEqual(before?.spec)
    expect(applied.metadata.generation).toBe(before?.metadata.generation)
  }
}

test('objects with a database name wait for it, get its id once, and keep the id when applied again', async () => {
  const git = it.installation().store.connect('git')
  const branch = branchManifest('wanted-1', 'wanted')
  const backup = backupManifest('wanted-2', 'wanted')
  await git.apply('Branch', branch)
  await git.apply('Backup', backup)
  const waiting = await whenBranch('wanted-1', ({ status }) => conditionOf(status, 'Ready') !== undefined)
  expect(conditionOf(waiting.status, 'Ready')).toMatchObject({
    status: 'False',
    reason: 'DatabaseMissing',
    message: 'spec.databaseName: there is no database wanted yet',
  })
  await whenBackup('wanted-2', ({ status }) => conditionOf(status, 'Ready')?.reason === 'DatabaseMissing')
  await applyAgain('Branch', branch)

  await it.create('wanted')
  const databaseId = await it.idOf('wanted')
  const made = await whenBranch('wanted-1', ({ status }) => status?.phase === 'available')
  expect(made.spec.databaseId).toBe(databaseId)
  const completed = await whenBackup('wanted-2', ({ status }) => status?.phase === 'completed')
  expect(completed?.spec.databaseId).toBe(databaseId)
  await it.when('wanted', ({ status }) => status?.branchCount === 1 && status.operation === undefined)

  const restore = restoreManifest('wanted-3', 'wanted', 'wanted-2')
  await git.apply('Restore', restore)
  const restored = await whenRestore('wanted-3', ({ status }) => status?.phase === 'completed')
  expect(restored?.spec.databaseId).toBe(databaseId)

  await applyAgain('Branch', branch)
  await applyAgain('Backup', backup)
  await applyAgain('Restore', restore)
  // The operator may write the status between the read and the write: the refusal is then a conflict.
  const refusal = async (other: string): Promise<string> => {
    const { metadata } = made
    const found = await it.cluster().get('Branch', { namespace: metadata.namespace ?? '', name: metadata.name })
    if (found === undefined) throw new Error('the branch is missing')
    const changed = { ...found, spec: { ...found.spec, databaseId: other } }
    return it
      .cluster()
      .replace('Branch', changed)
      .then(() => 'accepted', String)
  }
  for (const other of ['', 'another']) await expect.poll(() => refusal(other)).toMatch(/immutable/)
})

test('a branch that only names its database is created, even if the database is deleted right after', async () => {
  await it.create('hasty')
  await it.cluster().apply('Branch', branchManifest('hasty-1', 'hasty'))
  await it.cluster().delete('ManagedDatabase', at('hasty'))
  const made = await whenBranch('hasty-1', ({ status }) => status?.phase === 'available')
  expect(made.spec.databaseId).toBe(await it.idOf('hasty'))
  await it.when('hasty', hasCondition('DeletionBlocked', 'HasBranches'))
})

test('a new database with the name of a deleted one is not used; a condition reports that', async () => {
  await it.create('again', { deletion: { keepBackups: true } })
  const before = await it.idOf('again')
  await taken('again-1', 'again')
  // The Task ends first. After that, the cache has only a part of it.
  await whenBackup('again-1', ({ status }) => status?.taskId === undefined)
  await it.cluster().delete('ManagedDatabase', at('again'))
  await it.untilDeleted('again')
  await it.create('again')
  const after = await it.idOf('again')
  expect(after).not.toBe(before)
  const found = await whenBackup('again-1', ({ status }) => conditionOf(status, databaseReplaced) !== undefined)
  expect(conditionOf(found?.status, databaseReplaced)).toMatchObject({
    status: 'True',
    reason: 'AnotherId',
    message: `the database again now has the id ${after}; this object belongs to the previous database with the id ${before}`,
  })
  expect(found?.spec.databaseId).toBe(before)
  expect(found?.status).toMatchObject({ phase: 'completed', snapshotName: expect.any(String) })
  // An object that is requested now, by name, belongs to the new database.
  await it.cluster().apply('Backup', backupManifest('again-2', 'again'))
  const next = await whenBackup('again-2', ({ status }) => status?.phase === 'completed')
  expect(next?.spec.databaseId).toBe(after)
  expect(conditionOf(next?.status, databaseReplaced)).toBeUndefined()
  expect(next?.metadata.labels?.[labels.id]).toBeDefined()
})
