import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import type { ConfigMap } from '../../cluster/index.ts'
import type { Metrics } from '../../controller/index.ts'
import {
  annotations,
  type DeletedDatabase,
  deletedDatabaseKey,
  deletedDatabaseManifest,
  deletedDatabaseRecord,
} from '../../crds/index.ts'
import { plainSpec } from '../testing/samples.ts'
import { createDeletedDatabaseMetrics } from './metrics.ts'

const hour = 3600_000
const now = Date.parse('2026-11-27T12:00:00Z')
const timestamp = (ms: number): string => new Date(ms).toISOString().replace('.000', '')
const idOf = (number: number): string => `0190cccc-0000-4000-8000-00000000000${number}`

/** The record of a database. `deletedMs`: how long ago it was deleted. `retentionMs`: how long it is still kept. */
function recordOf(number: number, deletedMs: number, retentionMs?: number, isPurged = false): ConfigMap {
  const deleted: DeletedDatabase = {
    ...{ id: idOf(number), name: 'orders', namespace: 'tenant-a', uid: 'u', incarnation: 1, keepsBackups: false },
    deletedAt: timestamp(now - deletedMs),
    ...(retentionMs === undefined ? {} : { keptUntil: timestamp(now + retentionMs) }),
  }
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      ...deletedDatabaseKey(deleted.id),
      ...(isPurged ? { annotations: { [annotations.purge]: 'true' } } : {}),
    },
    data: {
      [deletedDatabaseRecord]: JSON.stringify(deleted),
      [deletedDatabaseManifest]: JSON.stringify({ spec: plainSpec }),
    },
  }
}

async function samplesOf(records: readonly ConfigMap[]): Promise<string[]> {
  const registry = new Registry()
  const metrics = { registry } as Metrics // only the methods that register metrics
  const remove = createDeletedDatabaseMetrics(
    metrics,
    () => records,
    () => now,
  )
  const lines = (await registry.metrics()).split('\n').filter(line => line !== '' && !line.startsWith('#'))
  remove()
  expect((await registry.metrics()).trim()).toBe('')
  return lines.map(line => line.replace('espalier_deleted_database', ''))
}

test('counts restorable databases and those being deleted, with the first end and the longest delay', async () => {
  const records = [
    recordOf(1, 24 * hour, 6 * hour),
    recordOf(2, hour, 48 * hour),
    recordOf(3, 200 * hour, -2 * hour),
    recordOf(4, 3 * hour, 48 * hour, true),
    recordOf(5, hour),
  ]
  expect(await samplesOf(records)).toEqual([
    's{state="restorable"} 2',
    's{state="deleting"} 3',
    '_window_seconds 21600',
    '_overdue_seconds 10800',
  ])
})

test('without deleted databases there is no window', async () => {
  expect(await samplesOf([])).toEqual(['s{state="restorable"} 0', 's{state="deleting"} 0', '_overdue_seconds 0'])
})
