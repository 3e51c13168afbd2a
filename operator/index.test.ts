import { once } from 'node:events'
import { createServer } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { type Cluster, ClusterError } from '../cluster/index.ts'
import { systemNamespace } from '../crds/index.ts'
import { sealingKeySecret } from '../sealing/credentials.ts'
import { type Operator, operatorConfiguration, startOperator } from './index.ts'
import {
  databaseDraft,
  databaseWhen,
  eventually,
  type Installation,
  openInstallation,
  silent,
  startTestOperator,
  testConfiguration,
} from './testing/installation.ts'

const http = { host: '127.0.0.1', port: 0 }
const opened: { stop(): Promise<void> }[] = []
const keep = <T extends { stop(): Promise<void> }>(part: T): T => {
  opened.unshift(part)
  return part
}
afterEach(async () => {
  for (const part of opened.splice(0)) await part.stop()
})

async function open(): Promise<Installation> {
  const installation = await openInstallation()
  keep({ stop: installation.close })
  return installation
}

const read = async ({ address }: Operator, path: string) => {
  const response = await fetch(`http://${address?.host}:${address?.port}${path}`)
  return { status: response.status, text: await response.text() }
}

describe('the operator', () => {
  test('reports its state, and that it is not ready without the keys', async () => {
    const installation = await open()
    const operator = keep(await startTestOperator(installation, { configuration: { http } }))
    await installation.cluster.create('ManagedDatabase', databaseDraft('counted'))
    await databaseWhen(installation.cluster, 'counted', found => found?.status?.phase === 'available')
    expect((await read(operator, '/healthz')).status).toBe(200)
    expect((await read(operator, '/readyz')).status).toBe(200)
    const metrics = (await read(operator, '/metrics')).text
    expect(metrics).toContain('espalier_databases{phase="available"} 1')
    expect(metrics).toContain(
      'espalier_operation_duration_seconds_count{operation="create-managed",outcome="Completed"} 1',
    )
    await installation.cluster.delete('Secret', { namespace: systemNamespace, name: sealingKeySecret })
    const unready = await eventually(
      () => read(operator, '/readyz'),
      ({ status }) => status === 503,
    )
    expect(unready.text).toContain('the sealing key is missing')
  })

  test('is the only leader among several; another one takes over', async () => {
    const installation = await open()
    const configuration = { leaderElection: true }
    const first = await startTestOperator(installation, { configuration })
    keep(await startTestOperator(installation, { configuration }))
    await installation.cluster.create('ManagedDatabase', databaseDraft('before'))
    await databaseWhen(installation.cluster, 'before', found => found?.status?.phase === 'available')
    await first.stop()
    await installation.cluster.create('ManagedDatabase', databaseDraft('after'))
    const after = await databaseWhen(
      installation.cluster,
      'after',
      found => found?.status?.phase === 'available',
      20_000,
    )
    expect(after?.status?.phase).toBe('available')
  })

  test('starts and stops without a responding cluster', async () => {
    const refuse = async (): Promise<never> => {
      throw new ClusterError('Unavailable', 'the API server does not respond')
    }
    const nothing: Cluster = {
      get: refuse,
      list: refuse,
      watch: () => ({ [Symbol.asyncIterator]: () => ({ next: refuse }) }),
      create: refuse,
      replace: refuse,
      apply: refuse,
      replaceStatus: refuse,
      delete: refuse,
      logs: refuse,
    }
    for (const leaderElection of [true, false]) {
      const operator = await startOperator({
        cluster: nothing,
        configuration: { ...testConfiguration, leaderElection, http },
        identity: 'lonely',
        logger: silent,
      })
      expect((await read(operator, '/readyz')).status).toBe(503)
      await operator.stop()
    }
  })

  test('refuses to start if its status page cannot listen', async () => {
    const installation = await open()
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    const address = taken.address()
    const port = typeof address === 'object' && address ? address.port : 0
    const started = startTestOperator(installation, { configuration: { http: { host: '127.0.0.1', port } } })
    await expect(started).rejects.toThrow('EADDRINUSE')
    taken.close()
  })
})

describe('its configuration', () => {
  const images = { postgres: { 16: 'a', 17: 'b', 18: 'c' } }
  test('has defaults', () => {
    expect(operatorConfiguration.parse({ images })).toMatchObject({
      leaderElection: true,
      workers: 16,
      deadlines: { creatingMs: 600_000, modifyingMs: 600_000, restoringMs: 3_600_000, deletingMs: 1_800_000 },
    })
  })
  test.each([
    ['no images', {}],
    ['no image of any version', { images: { postgres: {} } }],
    ['an image of an unknown version', { images: { postgres: { 15: 'a' } } }],
    ['a certificate for no address', { images, certificates: { api: { ipAddresses: ['localhost'] } } }],
    ['no workers', { images, workers: 0 }],
    ['a port out of range', { images, http: { host: 'h', port: 65536 } }],
    ['a deadline in seconds', { images, deadlines: { creatingMs: 600 } }],
    ['an unknown field', { images, worker: 1 }],
  ])('refuses %s', (_, value) => {
    expect(operatorConfiguration.safeParse(value).success).toBe(false)
  })
})
