/** Tasks: their stored content, and the response for oversized tasks. */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { apiVersion, labels, tenantNamespace } from '../../crds/index.ts'
import { createIds } from '../../values/id.ts'
import { type Client, createStable, startClient } from '../testing/client.ts'
import { reconcile } from '../testing/harness.ts'

let client: Client
beforeAll(async () => {
  client = await startClient()
})
afterAll(() => client.close())

const namespace = tenantNamespace('acme')
const stored = async () => (await client.cluster.list('Task', { namespace })).items
const pageOf = async () => {
  const { body } = await client.call('GET', '/tasks')
  return { tasks: body, text: JSON.stringify(body) }
}

test('sixty changes with a megabyte of ignored fields store little, and store no ignored field', async () => {
  const id = await createStable(client, 'shop')
  const state = { secret: 'verbatim', filling: 'x'.repeat(1_000_000) }
  for (let round = 1; round <= 60; round++) {
    const body = { ip_allowlist: { rules: [{ cidr: `10.1.${round}.0/24` }], state } }
    expect((await client.call('PATCH', `/databases/${id}`, { body })).headers).toHaveProperty('x-task-id')
    await reconcile(client.cluster, 'acme', 'shop')
  }
  expect(await stored()).toHaveLength(61)
  expect(JSON.stringify(await stored()).length).toBeLessThan(200_000)
  const { tasks, text } = await pageOf()
  expect(tasks).toHaveLength(61)
  expect(tasks[0].request).toEqual({ ip_allowlist: { rules: [{ cidr: '10.1.60.0/24' }] } })
  expect(text.length).toBeLessThan(100_000)
  expect(text).not.toContain('verbatim')
})

test('the task of a create contains the request, masked as it is stored', async () => {
  const rules = [{ cidr: '203.0.113.77/24', label: 'office' }]
  const created = await client.create('masked', { ip_allowlist: { rules, state: 'open' }, options: ['one'] })
  const task = await client.call('GET', `/tasks/${created.headers['x-task-id']}`)
  expect(task.body.request).toEqual({
    name: 'masked',
    region: 'local',
    size: 'small',
    ip_allowlist: { rules: [{ cidr: '203.0.113.0/24', label: 'office' }] },
    options: ['one'],
  })
})

test('returns old tasks with megabytes and secrets in small form and without secrets', async () => {
  const taskIds = Array.from({ length: 60 }, createIds(Date.now))
  const message = (index: number) => ({
    time: '2026-01-31T12:00:00Z',
    level: 'info' as const,
    text: `${index} ${'m'.repeat(1900)}`,
  })
  for (const taskId of taskIds) {
    const task = await client.cluster.create('Task', {
      apiVersion,
      kind: 'Task',
      metadata: { name: `task-${taskId}`, namespace, labels: { [labels.id]: taskId } },
      spec: {
        name: 'update-managed',
        subject: { kind: 'database', id: randomUUID(), name: 'old' },
        request: { display_name: 'Old', ip_allowlist: { rules: [], state: `verbatim ${'x'.repeat(1_000_000)}` } },
      },
    })
    // An operator of this version can still write the task's result.
    const messages = Array.from({ length: 100 }, (_, index) => message(index))
    await client.cluster.replaceStatus('Task', { ...task, status: { phase: 'succeeded', messages } })
  }
  const ids = new Set<string>(taskIds)
  const ended = async () =>
    (await pageOf()).tasks.filter(
      ({ id, status }: { id: string; status: string }) => ids.has(id) && status === 'succeeded',
    )
  await expect.poll(async () => (await ended()).length).toBe(60)
  const { tasks, text } = await pageOf()
  expect(tasks).toHaveLength(100)
  expect(text.length).toBeLessThan(1.1 * 1024 * 1024)
  expect(text).not.toContain('verbatim')
  const abridged = tasks.find(({ id }: { id: string }) => ids.has(id))
  expect(abridged.messages.at(-1).text).toMatch(/^99 /)

  const full = await client.call('GET', `/tasks/${abridged.id}`)
  expect(full.body.messages).toHaveLength(100)
  expect(full.body.request).toEqual({ display_name: 'Old', ip_allowlist: { rules: [] } })
})
