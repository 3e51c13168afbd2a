import { expect, test } from 'vitest'
import type { Cluster, Secret } from '../../cluster/index.ts'
import { labels } from '../../crds/index.ts'
import { serviceKeysComponent } from '../../sealing/service-keys.ts'
import { deleteStrayKeys } from './stray-keys.ts'

const now = Date.parse('2026-01-01T12:00:00Z')
const secret = (name: string, id: string, minutes: number): Secret => ({
  ...{ apiVersion: 'v1', kind: 'Secret' },
  metadata: {
    ...{ name, namespace: 'tenant', uid: `uid-${name}` },
    creationTimestamp: new Date(now - minutes * 60_000).toISOString(),
    labels: { [labels.database]: id, [labels.component]: serviceKeysComponent },
  },
})

test('keys whose database or branch was never created, and cannot be restored, are deleted 15 minutes later', async () => {
  const all = [
    ...[secret('stray', 'a', 16), secret('young', 'a', 14)],
    ...[secret('of-a-database', 'b', 60), secret('of-a-branch', 'c', 60)],
    secret('of-a-deleted-database', 'd', 60),
  ]
  const deleted: unknown[] = []
  const owners: Record<string, string> = { ManagedDatabase: 'b', Branch: 'c' }
  const cluster = {
    list: async (kind: string, { labels: selector }: { labels: Record<string, string> }) => ({
      items: selector[labels.id] === owners[kind] ? [{}] : [],
    }),
    get: async (_: string, { name }: { name: string }) => (name === 'deleted-d' ? {} : undefined),
    delete: async (_kind: string, { name }: { name: string }, preconditions: unknown) => {
      deleted.push([name, preconditions])
    },
  } as unknown as Cluster
  const within = () => ({ byIndex: () => all })
  await deleteStrayKeys({ secrets: { within } as never }, cluster, 'tenant', now)
  expect(deleted).toEqual([['stray', { uid: 'uid-stray' }]])
})
