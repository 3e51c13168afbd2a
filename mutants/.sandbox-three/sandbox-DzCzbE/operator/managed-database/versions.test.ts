/** Versions that an installation has no image of, or no longer. */
// @ts-nocheck

import { expect, test } from 'vitest'
import { conditionOf } from '../objects/conditions.ts'
import { isPhase, useInstallation } from '../testing/fixture.ts'
import { databaseDraft, eventually, testNamespace } from '../testing/installation.ts'

const it = useInstallation()
const only = (...majors: string[]) => ({
  configuration: { images: { postgres: Object.fromEntries(majors.map(major => [major, `postgres:${major}`])) } },
})

test('a database in a version that is not on offer says so, and comes when it is', async () => {
  await it.stopOperator()
  await it.startOperator(only('17'))
  await it.cluster().create('ManagedDatabase', databaseDraft('early', { pgVersion: '18' }))
  const told = await it.when(
    'early',
    ({ status }) => conditionOf(status, 'Progressing')?.reason === 'VersionNotOffered',
  )
  expect(conditionOf(told.status, 'Progressing')?.message).toBe('this installation has no image of Postgres 18')
  expect(await it.child('StatefulSet', 'early', 'statefulSet')).toBeUndefined()
  await it.stopOperator()
  await it.startOperator(only('17', '18'))
  await it.when('early', isPhase('available'))
})

test('a database whose version is off the offer goes on with the image it has, and changes all the same', async () => {
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
