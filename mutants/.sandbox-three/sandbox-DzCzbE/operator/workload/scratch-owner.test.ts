/** An owner that is no ManagedDatabase runs a real Postgres behind the real gateway, by what is in this folder alone. */
// @ts-nocheck

import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { childNames, labels, systemNamespace } from '../../crds/index.ts'
import { applicationDatabase, open, sealingKeySecret, secretPlace } from '../../sealing/credentials.ts'
import { conditionOf } from '../objects/conditions.ts'
import { ownerKindAnnotation } from '../objects/ownership.ts'
import { eventually, type Installation, silent, testConfiguration, testNamespace } from '../testing/installation.ts'
import { openRealInstallation } from '../testing/real-installation.ts'
import { scratchFinalizer, startScratchOwner } from '../testing/scratch-owner.ts'
import { createAccess } from './access.ts'
import type { InstanceSpec, InstanceStatus } from './instance.ts'

const id = randomUUID()
const key = { namespace: testNamespace, name: 'scratch' }
let installation: Installation
let scratch: Awaited<ReturnType<typeof startScratchOwner>>

const start = () =>
  startScratchOwner({
    cluster: installation.store.connect('scratch'),
    access: createAccess({ authority: installation.authority, now: Date.now, logger: silent }),
    images: testConfiguration.images.postgres,
    pods: testConfiguration.pods,
  })

beforeAll(async () => {
  installation = await openRealInstallation(4)
  scratch = await start()
})
afterAll(async () => {
  await scratch.stop()
  await installation.close()
})

const spec: InstanceSpec = {
  region: 'here',
  size: { name: 'small', version: 1 },
  pgVersion: '18',
  suspended: false,
  ipAllowlist: { rules: [{ cidr: '127.0.0.1' }] },
}
const owner = () => installation.cluster.get('ConfigMap', key)
const statusOf = async (): Promise<InstanceStatus> => JSON.parse((await owner())?.data?.status ?? '{}')
const change = async (more: Partial<InstanceSpec>) => {
  for (;;) {
    const map = await owner()
    if (map === undefined) throw new Error('the owner is gone')
    const data = { ...map.data, spec: JSON.stringify({ ...spec, ...more }) }
    const written = await installation.cluster.replace('ConfigMap', { ...map, data }).catch(() => undefined)
    if (written !== undefined) return
  }
}
const ready = (reason: string) =>
  eventually(
    async () => conditionOf(await statusOf(), 'Ready')?.reason,
    found => found === reason,
    { withinMs: 60_000 },
  )

/** As a user's client, through the gateway. */
async function ask(sql: string): Promise<unknown[]> {
  const { cluster, authority } = installation
  const name = childNames.credentials(id)
  const sealing = await cluster.get('Secret', { namespace: systemNamespace, name: sealingKeySecret })
  const secret = await cluster.get('Secret', { namespace: testNamespace, name })
  const sealed = Buffer.from(secret?.data?.app ?? '', 'base64').toString('utf8')
  const sealingKey = Buffer.from(sealing?.data?.key ?? '', 'base64')
  const client = new pg.Client({
    host: '127.0.0.1',
    port: (await statusOf()).endpoint?.port ?? 0,
    user: 'app',
    database: applicationDatabase,
    password: open(sealingKey, secretPlace(testNamespace, name, 'app'), sealed),
    ssl: { ca: authority.cert },
  })
  client.on('error', () => {})
  await client.connect()
  const { rows } = await client.query(sql)
  await client.end()
  return rows
}

test('it is made, serves, is suspended, comes back with its data, and leaves nothing behind', async () => {
  const { cluster } = installation
  await cluster.create('ConfigMap', {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { ...key, labels: { [labels.id]: id, scratch: 'true' }, finalizers: [scratchFinalizer] },
    data: { spec: JSON.stringify(spec) },
  })
  await ready('Serving')
  await ask('CREATE TABLE kept AS SELECT 7 AS value')
  const { volume } = await statusOf()
  expect(volume?.systemIdentifier).toMatch(/^[0-9]{19}$/)

  await change({ suspended: true })
  await ready('Suspended')
  await scratch.stop()
  scratch = await start()
  await change({})
  await ready('Serving')
  expect(await ask('SELECT value FROM kept')).toEqual([{ value: 7 }])
  expect((await statusOf()).volume).toEqual(volume)

  const marks = { [labels.database]: id }
  const kinds = ['StatefulSet', 'Pod', 'Service', 'PersistentVolumeClaim', 'Secret', 'ConfigMap'] as const
  const children = async () =>
    (await Promise.all(kinds.map(kind => cluster.list(kind, { labels: marks })))).flatMap(({ items }) =>
      items.map(item => item),
    )
  const annotated = (await children()).filter(({ kind }) => kind !== 'Pod')
  expect(annotated.length).toBeGreaterThan(5)
  expect(new Set(annotated.map(({ metadata }) => metadata.annotations?.[ownerKindAnnotation]))).toEqual(
    new Set(['ConfigMap']),
  )

  await cluster.delete('ConfigMap', key)
  await eventually(owner, found => found === undefined, { withinMs: 60_000 })
  expect(await children()).toEqual([])
  const volumes = async () => (await cluster.list('PersistentVolume', { labels: marks })).items
  await eventually(volumes, found => found.length === 0)
})
