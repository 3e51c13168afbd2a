import { describe, expect, test } from 'vitest'
import { apiVersion, labels } from '../../crds/index.ts'
import { useInstallation } from '../testing/fixture.ts'
import { eventually, testNamespace } from '../testing/installation.ts'
import { isOutdated } from './controller.ts'

const it = useInstallation()
const day = 24 * 3600_000

const add = async (taskId: string, status?: object) => {
  const task = await it.cluster().create('Task', {
    apiVersion,
    kind: 'Task',
    metadata: { name: `task-${taskId}`, namespace: testNamespace, labels: { [labels.id]: taskId } },
    spec: { name: 'create-managed', subject: { kind: 'database', id: taskId, name: 'nobody' } },
  })
  if (status) await it.cluster().replaceStatus('Task', { ...task, status })
}
const get = (taskId: string) => it.cluster().get('Task', { namespace: testNamespace, name: `task-${taskId}` })

describe('Tasks', () => {
  test('of a subject that is gone end', async () => {
    await add('aaaaaaaa-0000-4000-8000-000000000001')
    const ended = await eventually(
      () => get('aaaaaaaa-0000-4000-8000-000000000001'),
      task => task?.status?.finishedAt !== undefined,
    )
    expect(ended?.status).toMatchObject({ phase: 'failed', error: 'the database was deleted before this was done' })
  })

  test('go 30 days after their end, and not before', async () => {
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
    const kept = await get('aaaaaaaa-0000-4000-8000-000000000003')
    expect(kept && isOutdated(kept, Date.now())).toBe(false)
  })
})
