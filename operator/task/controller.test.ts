import { describe, expect, test } from 'vitest'
import { apiVersion, labels } from '../../crds/index.ts'
import { useInstallation } from '../testing/fixture.ts'
import { eventually, testNamespace } from '../testing/installation.ts'
import { isOutdated } from './retention.ts'

const it = useInstallation()
const day = 24 * 3600_000

const add = async (taskId: string, status?: object, subject = taskId) => {
  const task = await it.cluster().create('Task', {
    apiVersion,
    kind: 'Task',
    metadata: {
      name: `task-${taskId}`,
      namespace: testNamespace,
      labels: { [labels.id]: taskId, [labels.subject]: subject },
    },
    spec: { name: 'create-managed', subject: { kind: 'database', id: subject, name: 'nobody' } },
  })
  if (status) await it.cluster().replaceStatus('Task', { ...task, status })
}
const get = (taskId: string) => it.cluster().get('Task', { namespace: testNamespace, name: `task-${taskId}` })

describe('Tasks', () => {
  test('end if their subject is deleted', async () => {
    await add('aaaaaaaa-0000-4000-8000-000000000001')
    const ended = await eventually(
      () => get('aaaaaaaa-0000-4000-8000-000000000001'),
      task => task?.status?.finishedAt !== undefined,
    )
    expect(ended?.status).toMatchObject({
      phase: 'failed',
      error: 'the database was deleted before the operation was complete',
    })
  })

  test('are deleted 30 days after their end, and not before', async () => {
    const at = (daysAgo: number) => ({
      phase: 'succeeded',
      finishedAt: new Date(Date.now() - daysAgo * day).toISOString(),
    })
    await it.stopOperator()
    await add('aaaaaaaa-0000-4000-8000-000000000002', at(31))
    await add('aaaaaaaa-0000-4000-8000-000000000003', at(29))
    await it.startOperator()
    await eventually(
      () => get('aaaaaaaa-0000-4000-8000-000000000002'),
      task => task === undefined,
    )
    const retained = await get('aaaaaaaa-0000-4000-8000-000000000003')
    expect(retained && isOutdated(retained, Date.now())).toBe(false)
  })

  test('that have ended are deleted, except the newest 100 of each subject', async () => {
    const subject = 'aaaaaaaa-0000-4000-8000-00000000000f'
    const ended = (second: number) => ({
      phase: 'succeeded',
      finishedAt: new Date(Date.now() - 3600_000 + second * 1000).toISOString(),
    })
    const taskId = (index: number) => `aaaaaaaa-0000-4000-8000-${String(1000 + index).padStart(12, '0')}`
    const present = async () => {
      const { items } = await it.cluster().list('Task', { namespace: testNamespace })
      return items.filter(task => task.spec.subject.id === subject).map(task => task.metadata.name)
    }
    await it.stopOperator()
    for (let index = 0; index < 105; index++) await add(taskId(index), ended(index), subject)
    await add(taskId(900), undefined, 'aaaaaaaa-0000-4000-8000-00000000000e')
    await it.startOperator()
    await eventually(present, names => names.length <= 100)
    const retained = await present()
    expect(retained).toHaveLength(100)
    expect(retained).toContain(`task-${taskId(104)}`)
    expect(retained).toContain(`task-${taskId(5)}`)
    expect(retained).not.toContain(`task-${taskId(4)}`)

    // One more Task ends while the operator watches. The oldest is deleted.
    await add(taskId(200), undefined, subject)
    await eventually(present, names => names.length === 100 && names.includes(`task-${taskId(200)}`))
    expect(await present()).not.toContain(`task-${taskId(5)}`)
  })
})
