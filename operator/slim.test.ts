import { describe, expect, test } from 'vitest'
import type { StatefulSet } from '../cluster/index.ts'
import { apiVersion, type Task } from '../crds/index.ts'
import { createSharing, slimTask } from './slim.ts'

const task = (status: Task['status']): Task => ({
  apiVersion,
  kind: 'Task',
  metadata: {
    name: 'task-1',
    namespace: 'n',
    uid: 'u',
    resourceVersion: '7',
    labels: { a: 'b' },
    managedFields: [],
  },
  spec: {
    name: 'update-managed',
    subject: { kind: 'database', id: 'i', name: 'one' },
    request: { much: 'x'.repeat(1_000) },
  },
  ...(status === undefined ? {} : { status }),
})

describe('what is kept of a Task', () => {
  test('that has ended is whose it was, how it ended and when', () => {
    const finishedAt = '2026-01-01T00:00:00Z'
    const messages = [{ time: finishedAt, level: 'info' as const, text: 'long '.repeat(100) }]
    const kept = slimTask(task({ phase: 'succeeded', finishedAt, updatedAt: finishedAt, messages }))
    expect(kept).toEqual({
      apiVersion,
      kind: 'Task',
      metadata: { name: 'task-1', namespace: 'n', uid: 'u', resourceVersion: '7' },
      spec: { name: 'update-managed', subject: { kind: 'database', id: 'i', name: 'one' } },
      status: { phase: 'succeeded', finishedAt },
    })
  })
  test('that is under way is all of it', () => {
    const running = task({ phase: 'running' })
    expect(slimTask(running)).toEqual({
      ...running,
      metadata: expect.not.objectContaining({ managedFields: expect.anything() }),
    })
  })
})

const set = (name: string): StatefulSet => ({
  apiVersion: 'apps/v1',
  kind: 'StatefulSet',
  metadata: { name, namespace: 'n', uid: `uid of ${name}`, labels: { app: ['data', 'base'].join('') } },
  spec: {
    serviceName: name,
    selector: {},
    template: { spec: { containers: [{ name: 'postgres', image: 'postgres:18', args: ['-c', 'a=b'] }] } },
  },
})

describe('sharing', () => {
  test('keeps equal parts once, and changes no object', () => {
    const { share } = createSharing()
    const [one, two] = [share(set('one')), share(set('two'))]
    expect([one, two]).toEqual([set('one'), set('two')])
    expect(one.spec?.template.spec?.containers).toBe(two.spec?.template.spec?.containers)
    expect(one.spec).not.toBe(two.spec)
  })
  test('leaves alone what is frozen', () => {
    const { share } = createSharing()
    share(set('one'))
    const frozen = set('two')
    const containers = frozen.spec?.template.spec?.containers
    const object = { ...frozen, spec: Object.freeze(frozen.spec) }
    expect(share(object).spec?.template.spec?.containers).toBe(containers)
  })
  test('goes on where more has come than is kept in common', () => {
    const { share } = createSharing()
    for (let index = 0; index < 30_000; index++) {
      const object = set(`number ${index}`)
      const container = object.spec?.template.spec?.containers[0]
      if (container) container.image = `image ${index}`
      share(object)
    }
    expect(share(set('last'))).toEqual(set('last'))
  })
})
