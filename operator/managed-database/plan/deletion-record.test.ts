/** The record of a deletion, and the objects that outlive the database. */
import { describe, expect, test } from 'vitest'
import type { AnyObject } from '../../../cluster/index.ts'
import { type Backup, labels, type ManagedDatabase, readDeletedDatabase, specOfDeleted } from '../../../crds/index.ts'
import { podSettings } from '../../pod-settings.ts'
import { databaseDraft } from '../../testing/installation.ts'
import { dueDeletionRecord, outlivesDatabase } from './deletion-record.ts'

const id = '5e1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f'
const deletedAt = '2026-01-02T00:00:00Z'
const archived = podSettings.parse({ archive: { url: 'https://archive:8443' } })
const backup = (phase: 'completed' | 'running', kind: 'durable' | 'hot' = 'durable') =>
  ({
    ...{ apiVersion: 'espalier.dev/v1alpha1', kind: 'Backup' },
    metadata: { name: 'b', labels: { [labels.id]: id } },
    spec: { databaseName: 'one', databaseId: id, kind, purpose: 'user' },
    status: { phase, incarnation: 2, endLsn: '0/1000000', cutAt: '2026-01-01T00:00:00Z', systemIdentifier: '7' },
  }) as Backup

type Given = { spec?: Partial<ManagedDatabase['spec']>; status?: ManagedDatabase['status']; backups?: Backup[] }
const of = ({ spec = {}, status, backups = [backup('completed')] }: Given = {}) => {
  const always = { backup: { durable: true }, deletion: { keepBackups: false } }
  const { metadata, ...rest } = databaseDraft('one', { ...always, ...spec }, id)
  const database = {
    ...rest,
    metadata: { ...metadata, uid: 'u', deletionTimestamp: deletedAt, labels: { [labels.id]: id } },
    status: { incarnation: 2, endpoint: { host: 'h', port: 5000 }, ...status },
  } as ManagedDatabase
  return { database, backups, podSettings: archived, deletionRecord: undefined }
}
const recorded = (given?: Given) => {
  const draft = dueDeletionRecord(of(given))
  return draft && { deleted: readDeletedDatabase(draft), spec: specOfDeleted(draft), draft }
}

describe('a deletion is recorded', () => {
  test('for the tenant of its namespace, whatever a label says', () => {
    const { database, ...rest } = of()
    const metadata = {
      ...database.metadata,
      namespace: 'espalier-t-0123',
      labels: { ...database.metadata.labels, [labels.tenant]: 'x' },
    }
    const draft = dueDeletionRecord({ ...rest, database: { ...database, metadata } })
    expect(draft?.metadata.labels?.[labels.tenant]).toBe('0123')
  })

  test('with the manifest to restore the database, for as long as WAL is retained', () => {
    const archive = { incarnation: 2, archived: '0/2000000', archivedAt: '2026-01-01T12:00:00Z' }
    const found = recorded({
      spec: { backup: { durable: true, retentionDays: 3 }, deletion: { keepBackups: true }, suspended: true },
      status: { archive },
    })
    expect(found?.deleted).toMatchObject({ id, keptUntil: '2026-01-05T00:00:00Z', incarnation: 2, archive })
    expect(found?.spec).toMatchObject({
      ...{ suspended: false, deletion: { keepBackups: false } },
      dataSource: { backupName: 'b', undelete: { incarnation: 3, through: '0/2000000', port: 5000 } },
    })
  })

  test.each<[string, Given]>([
    ['is deleted for good', { spec: { deletion: { keepBackups: false, purge: true } } }],
    ['has no durable backup that is completed', { backups: [backup('running'), backup('completed', 'hot')] }],
    ['has the durable tier no longer', { spec: { backup: { durable: false } } }],
  ])('without the manifest if it %s: only the archive is to be deleted', (_, given) => {
    const found = recorded(given)
    expect(found?.deleted).toMatchObject({ id, incarnation: 2 })
    expect([found?.deleted?.keptUntil, found?.spec]).toEqual([undefined, undefined])
  })

  test('not at all if nothing was ever archived', () => {
    expect(recorded({ spec: { backup: { durable: false } }, backups: [backup('completed', 'hot')] })).toBeUndefined()
    const refused = { ...backup('completed'), status: { phase: 'failed' } } as Backup
    for (const backups of [[], [refused]])
      expect(dueDeletionRecord({ ...of({ backups }), podSettings: podSettings.parse({}) })).toBeUndefined()
  })

  test('if something was archived, although the installation has no archive now', () => {
    const draft = dueDeletionRecord({ ...of(), podSettings: podSettings.parse({}) })
    expect(draft && readDeletedDatabase(draft)).toMatchObject({ id, incarnation: 2 })
    expect(draft && specOfDeleted(draft)).toBeDefined()
  })

  test('once, and again if the deletion becomes permanent', () => {
    const draft = dueDeletionRecord(of())
    const deletionRecord = { ...draft, kind: 'ConfigMap' } as never
    expect(dueDeletionRecord({ ...of(), deletionRecord })).toBeUndefined()
    const purged = of({ spec: { deletion: { keepBackups: false, purge: true } } })
    const second = dueDeletionRecord({ ...purged, deletionRecord })
    expect(second && readDeletedDatabase(second)?.keptUntil).toBeUndefined()
    expect(dueDeletionRecord({ ...purged, deletionRecord: { ...second, kind: 'ConfigMap' } as never })).toBeUndefined()
  })
})

test.each<[string, string, object, boolean]>([
  ['passwords', 'Secret', { component: 'credentials' }, true],
  ['tokens of services', 'Secret', { component: 'service-token' }, true],
  ['keys of services', 'Secret', { component: 'service-keys' }, true],
  ['its certificate', 'Secret', { component: 'tls' }, false],
  ['the Secrets for clients', 'Secret', { component: 'connection' }, false],
  ['a durable backup', 'Backup', backup('completed'), true],
  ['a durable backup that is being taken', 'Backup', backup('running'), false],
  ['a hot backup', 'Backup', backup('completed', 'hot'), false],
])('which objects of a restorable database, %s, are kept or deleted', (_, kind, what, stays) => {
  const { component } = what as { component?: string }
  const object = component === undefined ? what : { metadata: { labels: { [labels.component]: component } } }
  const deletionRecord = { ...dueDeletionRecord(of()), kind: 'ConfigMap' } as never
  expect(outlivesDatabase({ ...of(), deletionRecord }, { ...object, kind } as AnyObject)).toBe(stays)
  expect(outlivesDatabase(of(), { ...object, kind } as AnyObject)).toBe(false)
})
