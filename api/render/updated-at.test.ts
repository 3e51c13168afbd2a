/** `updated_at` changes with everything that a client sees, even within the same second. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { labels, tenantNamespace } from '../../crds/index.ts'
import { type Client, createStable, setSnapshotClass, startClient, storedDatabase, until } from '../testing/client.ts'

let client: Client
let id: string
beforeAll(async () => {
  client = await startClient()
  await setSnapshotClass(client, { name: 'snapshots', atomic: true })
  id = await createStable(client, 'moving')
})
afterAll(() => client.close())

type Seen = { updated_at: string; branch_count: number; storage_used: number }
const read = async (): Promise<Seen> => (await client.call('GET', `/databases/${id}`)).body
/** Returns the state after a step, as soon as the change is visible. Its `updated_at` must be later than before. */
async function after(step: () => Promise<unknown>, isSeen: (seen: Seen) => boolean): Promise<void> {
  const before = await read()
  await new Promise(resolve => setTimeout(resolve, 2))
  await step()
  await until(async () => isSeen(await read()))
  const seen = await read()
  expect(seen.updated_at > before.updated_at, `${seen.updated_at} is later than ${before.updated_at}`).toBe(true)
}

test('changes when a branch is created or deleted', async () => {
  const made: string[] = []
  const make = async () => made.push((await client.call('POST', `/databases/${id}/branches`)).body.id)
  await after(make, ({ branch_count }) => branch_count === 1)
  await after(make, ({ branch_count }) => branch_count === 2)
  const namespace = tenantNamespace('acme')
  const branchOf = async (branch: string | undefined) => {
    const { items } = await client.cluster.list('Branch', { namespace, labels: { [labels.id]: branch ?? '' } })
    if (items[0] === undefined) throw new Error('no branch')
    return items[0]
  }
  await client.cluster.replaceStatus('Branch', { ...(await branchOf(made[0])), status: { phase: 'available' } })
  await until(
    async () => (await client.call('GET', `/databases/${id}/branches/${made[0]}`)).body.status === 'available',
  )
  await after(
    () => client.call('DELETE', `/databases/${id}/branches/${made[0]}`),
    ({ branch_count }) => branch_count === 1,
  )
})

test("changes with the operator's observations", async () => {
  const { status = {}, ...database } = await storedDatabase(client, 'moving')
  const changed = { ...status, storageUsedBytes: 8192, updatedAt: new Date(Date.now() + 2).toISOString() }
  await after(
    () => client.cluster.replaceStatus('ManagedDatabase', { ...database, status: changed }),
    ({ storage_used }) => storage_used === 8192,
  )
})

test('a task and its messages have milliseconds', async () => {
  const { body: tasks } = await client.call('GET', `/tasks?subject_id=${id}`)

  const [stored] = (await client.cluster.list('Task', { labels: { [labels.id]: tasks[0].id } })).items
  if (stored === undefined) throw new Error('no task')
  const messages = ['2026-01-31T12:00:05Z', '2026-01-31T13:00:05.25+01:00'].map(time => ({
    time,
    level: 'info' as const,
    text: 'x',
  }))
  await client.cluster.replaceStatus('Task', { ...stored, status: { phase: 'running', messages } })
  const readMessages = async () => (await client.call('GET', `/tasks/${tasks[0].id}`)).body.messages
  await until(async () => (await readMessages()).length === 2)
  expect((await readMessages()).map(({ time }: { time: string }) => time)).toEqual([
    '2026-01-31T12:00:05.000Z',
    '2026-01-31T12:00:05.250Z',
  ])
})
