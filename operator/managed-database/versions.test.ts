/** Versions for which an installation has no image, or no longer has one. */
import { expect, test } from 'vitest'
import { conditionOf } from '../objects/conditions.ts'
import { isPhase, useInstallation } from '../testing/fixture.ts'
import { databaseDraft, eventually, testNamespace } from '../testing/installation.ts'

const it = useInstallation()
const only = (...majors: string[]) => ({
  configuration: { images: { postgres: Object.fromEntries(majors.map(major => [major, `postgres:${major}`])) } },
})

test('a database with an unsupported version reports it, and is created once the version is supported', async () => {
  await it.stopOperator()
  await it.startOperator(only('17'))
  await it.cluster().create('ManagedDatabase', databaseDraft('early', { pgVersion: '18' }))
  const reported = await it.when(
    'early',
    ({ status }) => conditionOf(status, 'Progressing')?.reason === 'VersionNotOffered',
  )
  expect(conditionOf(reported.status, 'Progressing')?.message).toBe('this installation has no image of Postgres 18')
  expect(await it.child('StatefulSet', 'early', 'statefulSet')).toBeUndefined()
  await it.stopOperator()
  await it.startOperator(only('17', '18'))
  await it.when('early', isPhase('available'))
})

test('a database whose version is no longer supported keeps its image, and can still be changed', async () => {
  await it.create('late', { pgVersion: '18' })
  await it.stopOperator()
  await it.startOperator(only('17'))
  const current = await it.when('late', isPhase('available'))
  await it.cluster().replace('ManagedDatabase', { ...current, spec: { ...current.spec, suspended: true } })
  await it.when('late', isPhase('suspended'))
  const set = await eventually(
    () => it.cluster().list('StatefulSet', { namespace: testNamespace }),
    ({ items }) => items.some(({ spec }) => spec?.replicas === 0),
  )
  const images = set.items
    .filter(({ spec }) => spec?.replicas === 0)
    .map(({ spec }) => spec?.template.spec?.containers[0]?.image)
  expect(images).toEqual(['postgres:18'])
})
