// @ts-nocheck
import { describe, expect, test } from 'vitest'
import type { StatefulSet } from '../cluster/index.ts'
import { apiVersion, type Backup } from '../crds/index.ts'
import { createSharing, slimBackup } from './slim.ts'

describe('what is kept of a backup', () => {
  const backup = (status: Backup['status']): Backup => ({
    apiVersion,
    kind: 'Backup',
    metadata: {
      name: 'one-1',
      namespace: 'n',
      uid: 'u',
      resourceVersion: '7',
      labels: { a: 'b' },
      annotations: { c: 'd' },
    },
    spec: { databaseName: 'one', databaseId: 'i', kind: 'hot', purpose: 'user' },
    ...(status === undefined ? {} : { status }),
  })
  const finishedAt = '2026-01-01T00:00:00Z'

  test('that has ended is what its retention and its deletion go by', () => {
    const kept = slimBackup(backup({ phase: 'completed', finishedAt, startLsn: '0/1', conditions: [] }))
    expect(kept).toEqual({
      ...backup(undefined),
      metadata: { name: 'one-1', namespace: 'n', uid: 'u', resourceVersion: '7', labels: { a: 'b' } },
      status: { phase: 'completed', finishedAt },
    })
  })
  test.each<[string, Backup['status']]>([
    ['is under way', { phase: 'running', startLsn: '0/1' }],
    ['waits for its Task to end', { phase: 'completed', finishedAt, taskId: 't', startLsn: '0/1' }],
  ])('that %s is all of it', (_, status) => {
    expect(slimBackup(backup(status))).toEqual(backup(status))
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
