/** What kubectl can make and nothing runs yet says so, and is in nobody's way. */
// @ts-nocheck

import { describe, expect, test } from 'vitest'
import { apiVersion, childNames, labels, notAvailable } from '../../crds/index.ts'
import { useInstallation } from '../testing/fixture.ts'
import { eventually, testNamespace } from '../testing/installation.ts'

const it = useInstallation()
const metadata = (name: string) => ({ name, namespace: testNamespace })
const size = { name: 'small', version: 1 }

const make = {
  Branch: (databaseName: string, databaseId: string) =>
    it.cluster().create('Branch', {
      apiVersion,
      kind: 'Branch',
      metadata: metadata(`${databaseName}-branch`),
      spec: {
        databaseName,
        databaseId,
        depth: 1,
        region: 'here',
        size,
        pgVersion: '18',
        ipAllowlist: { rules: [] },
        services: [],
        options: [],
      },
    }),
  Restore: (databaseName: string, databaseId: string) =>
    it.cluster().create('Restore', {
      apiVersion,
      kind: 'Restore',
      metadata: metadata(`${databaseName}-restore`),
      spec: { databaseName, databaseId, target: { backupName: 'none' } },
    }),
}
const statusOf = async (kind: keyof typeof make, name: string) =>
  eventually(
    async () => (await it.cluster().get(kind, metadata(name)))?.status,
    status => status?.phase !== undefined,
  )

test.each([
  ['Branch', /makes no branches/],
  ['Restore', /restores no backups/],
] as const)('a %s has failed, with the reason', async (kind, message) => {
  const name = `with${kind}`.toLowerCase()
  await it.create(name)
  const { metadata: made } = await make[kind](name, await it.idOf(name))
  const status = await statusOf(kind, made.name)
  expect(status?.phase).toBe('failed')
  expect(status?.conditions).toMatchObject([
    { type: 'Ready', status: 'False', reason: notAvailable, message: expect.stringMatching(message) },
  ])
})

test('one that a version ran which runs its kind is left alone', async () => {
  await it.create('ran')
  await it.stopOperator()
  const branch = await make.Branch('ran', await it.idOf('ran'))
  await it.cluster().replaceStatus('Branch', { ...branch, status: { phase: 'available' } })
  await it.startOperator()
  await it.when('ran', found => found.status?.branchCount === 1)
  expect((await it.cluster().get('Branch', metadata('ran-branch')))?.status).toEqual({ phase: 'available' })
})

describe('a branch that nothing comes of', () => {
  test('counts for nothing, and keeps no database from being deleted', async () => {
    await it.create('parent')
    await make.Branch('parent', await it.idOf('parent'))
    await statusOf('Branch', 'parent-branch')
    await it.when('parent', found => found.status?.branchCount === 0)
    await it.cluster().delete('ManagedDatabase', metadata('parent'))
    await it.gone('parent')
    expect(await it.cluster().get('Branch', metadata('parent-branch'))).toBeUndefined()
  })

  test('nor does its Task stay open', async () => {
    const taskId = crypto.randomUUID()
    await it.cluster().create('Task', {
      apiVersion,
      kind: 'Task',
      metadata: { ...metadata(childNames.task(taskId)), labels: { [labels.id]: taskId } },
      spec: {
        name: 'create-branch',
        subject: { kind: 'branch', id: crypto.randomUUID(), name: 'any' },
      },
    })
    const task = await eventually(
      () => it.cluster().get('Task', metadata(childNames.task(taskId))),
      found => found?.status?.finishedAt !== undefined,
    )
    expect(task?.status).toMatchObject({ phase: 'failed', error: expect.stringContaining('this version of Espalier') })
  })
})
