/** Tasks of another kind than a database. The controller creates, updates, checks and ends them in the same way. */
import { expect, test } from 'vitest'
import { createMetrics } from '../../controller/index.ts'
import { childNames, type Task } from '../../crds/index.ts'
import { createCaches } from '../caches.ts'
import { no, yes } from '../objects/conditions.ts'
import { eventually, openInstallation, silent, testNamespace } from '../testing/installation.ts'
import { startTaskController } from './controller.ts'
import type { Subject, SubjectSource } from './subject.ts'

const taskId = '11111111-2222-4333-8444-555555555555'
const laterId = '11111111-2222-4333-8444-666666666666'
const now = () => Date.parse('2026-01-01T00:00:00Z')
const condition = (finding: ReturnType<typeof yes>) => ({
  type: 'Progressing',
  ...finding,
  lastTransitionTime: '2026-01-01T00:00:00Z',
})

const branch = (more: Partial<Subject>): Subject => ({
  kind: 'branch',
  namespace: testNamespace,
  name: 'preview',
  id: 'b1',
  tenant: undefined,
  phase: 'creating',
  isDeleting: false,
  operation: { taskId, name: 'create-branch' },
  progressing: condition(yes('Starting', 'starting Postgres')),
  requestedTaskId: () => undefined,
  isInForce: () => true,
  ...more,
})

test("the Task of a branch's operation ends when the branch is reconciled, and reports why it failed", async () => {
  const installation = await openInstallation({ fakes: false })
  const { cluster } = installation
  const caches = createCaches(cluster, silent, createMetrics())
  await caches.start()
  let current: Subject | undefined
  let notify: Parameters<SubjectSource['onChange']>[0] = () => {}
  const source: SubjectSource = {
    kind: 'branch',
    withTask: (namespace, id) =>
      current?.namespace === namespace && current.operation?.taskId === id ? current : undefined,
    live: async () => current,
    onChange: handler => {
      notify = handler
      return () => {}
    },
  }
  const becomes = (next: Subject) => {
    const previous = current
    current = next
    notify(next, previous)
  }
  const controller = startTaskController({
    cluster,
    caches,
    sources: [source],
    workers: 1,
    metrics: createMetrics(),
    logger: silent,
    now,
    clock: { distrust: () => undefined, onChange: () => () => {} },
    signal: new AbortController().signal,
  })
  const taskWhen = (id: string, isExpected: (task: Task | undefined) => boolean) =>
    eventually(() => cluster.get('Task', { namespace: testNamespace, name: childNames.task(id) }), isExpected)

  becomes(branch({}))
  const running = await taskWhen(taskId, task => task?.status?.phase === 'running')
  expect(running?.spec).toEqual({ name: 'create-branch', subject: { kind: 'branch', id: 'b1', name: 'preview' } })
  expect(running?.status?.messages?.at(-1)).toMatchObject({ text: 'starting Postgres', progress: 30 })
  becomes(branch({ phase: 'available', progressing: condition(no('Completed', 'nothing to be done')) }))
  await taskWhen(taskId, task => task?.status?.phase === 'succeeded')

  becomes(branch({ operation: { taskId: laterId, name: 'delete-branch' } }))
  await taskWhen(laterId, task => task?.status?.phase === 'running')
  becomes(branch({ operation: undefined, id: 'another' }))
  await taskWhen(laterId, task => task?.status?.phase === 'succeeded')

  await controller.stop()
  await caches.stop()
  await installation.close()
})
