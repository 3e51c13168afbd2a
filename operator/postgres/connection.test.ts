/** A connection whose other end becomes silent. No call waits forever. */
import { connect, createServer, type Server, type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { issueClientCertificate } from '../pki/index.ts'
import { operatorCommonName } from './configuration.ts'
import { withConnection } from './connection.ts'
import { type RunningPostgres, startPostgres } from './testing/postgres.ts'

type Proxy = { port: number; stall(): void; close(): void }

/** Forwards to a server until `stall` is called. Then it keeps every connection open and forwards nothing. */
async function stallingProxy(target: { host: string; port: number } | undefined): Promise<Proxy> {
  const sockets: Socket[] = []
  let stalled = target === undefined
  const server: Server = createServer(client => {
    sockets.push(client.on('error', () => {}))
    if (target === undefined) return
    const upstream = connect(target).on('error', () => {})
    sockets.push(upstream)
    client.on('data', bytes => stalled || upstream.write(bytes))
    upstream.on('data', bytes => stalled || client.write(bytes))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return {
    port: address.port,
    stall: () => {
      stalled = true
    },
    close: () => {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

describe.concurrent('a server that becomes silent', () => {
  let server: RunningPostgres
  beforeAll(async () => {
    server = await startPostgres({ major: '18' })
  })
  afterAll(() => server?.stop())

  /** Connects through a proxy. Returns the result and its duration. */
  async function through(
    proxy: Proxy,
    work: Parameters<typeof withConnection<unknown>>[4],
    signal = new AbortController().signal,
  ): Promise<{ outcome: unknown; ms: number }> {
    const started = performance.now()
    const certificate = issueClientCertificate(server.authority, { commonName: operatorCommonName })
    const target = { ...server.target, port: proxy.port }
    const outcome = await withConnection(target, 'template1', certificate, signal, work).catch(error => error)
    proxy.close()
    return { outcome, ms: performance.now() - started }
  }

  test('before its first answer', async () => {
    const { outcome, ms } = await through(await stallingProxy(undefined), async () => 'connected')
    expect(outcome).toMatchObject({ name: 'PostgresError', reason: 'timeout' })
    expect(ms).toBeLessThan(5_000)
  })

  test('during a query', async () => {
    const proxy = await stallingProxy(server.target)
    const { outcome, ms } = await through(proxy, connection => {
      proxy.stall()
      return connection.rows('SELECT 1')
    })
    expect(outcome).toMatchObject({ name: 'PostgresError', reason: 'timeout' })
    expect(ms).toBeLessThan(12_000)
  })

  test('at the end of the session', async () => {
    const proxy = await stallingProxy(server.target)
    const { outcome, ms } = await through(proxy, async connection => {
      const rows = await connection.rows('SELECT 1 AS one')
      proxy.stall()
      return rows
    })
    expect(outcome).toEqual([{ one: 1 }])
    expect(ms).toBeLessThan(5_000)
  })

  test('when the caller aborts first', async () => {
    const proxy = await stallingProxy(server.target)
    const controller = new AbortController()
    const { outcome, ms } = await through(
      proxy,
      connection => {
        proxy.stall()
        const rows = connection.rows('SELECT 1')
        controller.abort(new Error('stopped'))
        return rows
      },
      controller.signal,
    )
    expect(outcome).toHaveProperty('message', 'stopped')
    expect(ms).toBeLessThan(5_000)
  })

  test('when a statement exceeds its timeout, and the server cancels it', async () => {
    const { outcome, ms } = await through(await stallingProxy(server.target), connection =>
      connection.rows('SELECT pg_sleep(60)'),
    )
    expect(outcome).toMatchObject({ name: 'PostgresError', reason: 'timeout', code: '57014' })
    expect(ms).toBeLessThan(10_000)
  })
})
