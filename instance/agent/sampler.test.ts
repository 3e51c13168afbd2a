import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { createAuthority, issueServerCertificate } from '../../operator/pki/index.ts'
import { connectedEnds, hasConnection } from './connected.ts'
import { openHistory } from './history.ts'
import { createSampler } from './sampler.ts'

const tls = mkdtempSync(join(tmpdir(), 'espalier-sampler-'))
beforeAll(() => {
  const authority = createAuthority()
  const { cert, key } = issueServerCertificate(authority, { dnsNames: ['db.test'] })
  const files = { 'tls.crt': cert, 'tls.key': key, 'ca.crt': authority.cert, 'monitor.crt': cert, 'monitor.key': key }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(tls, name), text)
})
afterAll(() => rmSync(tls, { recursive: true }))

describe('how often Postgres is queried', () => {
  const walFile = '0000000100000000000000A1'
  type Server = { connections: number; sessions: number; wal_bytes: number; wal_file: string }
  const resting: Server = { connections: 0, sessions: 7, wal_bytes: 100, wal_file: walFile }
  let time = 0
  let queried: string[][] = []
  let server: Server | 'gone'
  let isConnected = false
  let written: { at: number; path?: string }
  let sample: (keepsFailures: boolean) => Promise<boolean>
  let history: ReturnType<typeof openHistory>
  beforeEach(() => {
    ;[time, queried, server, isConnected, written] = [0, [], resting, false, { at: 1 }]
    history = openHistory('/no/such/directory/samples')
    sample = createSampler({
      ...{ host: '127.0.0.1', port: 5432, data: tls, tls, history, now: () => time, log: () => {} },
      postgres: {
        query: async (_login, statements) => {
          if (server === 'gone') throw new Error('gone')
          queried.push([...statements])
          return [JSON.stringify(server), ...(statements.length > 1 ? ['4096'] : [])]
        },
        isConnected: () => isConnected,
      },
      readWrittenAt: async path => {
        written.path = path
        return written.at
      },
    })
  })
  /** Takes this many samples, 30 seconds apart. Returns how often Postgres was queried. */
  const take = async (count: number) => {
    const before = queried.length
    for (let index = 0; index < count; index++) {
      await sample(true)
      time += 30_000
    }
    return queried.length - before
  }
  const untilAtRest = () => take(5)

  test('every twenty minutes after two idle minutes, while samples continue every 30 seconds', async () => {
    expect(await untilAtRest()).toBe(4)
    expect(await take(38)).toBe(0)
    expect(await take(1)).toBe(1)
    expect(await take(39)).toBe(0)
    expect(await take(1)).toBe(1)
    expect(history.since(0).map(({ at }) => at)).toEqual(Array.from({ length: 84 }, (_, index) => index * 30_000))
    expect(history.latest()?.values).toMatchObject({ up: 1, connections: 0, wal_bytes: 100, database_bytes: 4096 })
    expect(history.latest()?.values.volume_size_bytes).toBeGreaterThan(0)
    expect(written.path).toBe(join(tls, 'pgdata', 'pg_wal', walFile))
  })

  test('at each sample while a client is connected, also if it is connected only to template1', async () => {
    await untilAtRest()
    isConnected = true
    expect(await take(3)).toBe(3)
    isConnected = false
    expect(await take(3)).toBe(0)
    isConnected = true
    server = { ...resting, connections: 1, sessions: 8 }
    expect(await take(3)).toBe(3)
    isConnected = false
    expect(await take(3)).toBe(3)
  })

  test.each<[string, () => void]>([
    ['WAL was written', () => (written = { at: 2 })],
    ['the WAL file cannot be read', () => (written = { at: Number.NaN })],
  ])('at the next sample if %s', async (_, stir) => {
    await untilAtRest()
    stir()
    expect(await take(1)).toBe(1)
  })

  test('at each sample for two minutes after a client has disconnected', async () => {
    await untilAtRest()
    isConnected = true
    server = { ...resting, sessions: 8 }
    await take(1)
    isConnected = false
    expect(await take(3)).toBe(3)
    expect(await take(5)).toBe(0)
  })

  test("once for Postgres's own writes", async () => {
    await untilAtRest()
    written = { at: 2 }
    server = { ...resting, wal_bytes: 200 }
    expect(await take(5)).toBe(1)
    expect(history.latest()?.values.wal_bytes).toBe(200)
  })

  test('once more after the current WAL file has changed', async () => {
    await untilAtRest()
    isConnected = true
    server = { ...resting, wal_file: '0000000100000000000000A2' }
    await take(1)
    isConnected = false
    expect(await take(1)).toBe(1)
    expect(await take(1)).toBe(0)
    expect(written.path).toMatch(/A2$/)
  })

  test.each([null, '../../../../etc/passwd'])('at each sample if the name of the WAL file is %j', async name => {
    server = { ...resting, wal_file: name as string }
    expect(await take(9)).toBe(9)
    expect(written.path).toBeUndefined()
  })

  test('at each sample until an unreachable Postgres answers again and is idle', async () => {
    await untilAtRest()
    server = 'gone'
    isConnected = true
    await take(1)
    isConnected = false
    expect(history.latest()?.values.up).toBe(0)
    server = resting
    expect(await untilAtRest()).toBe(4)
    expect(await take(3)).toBe(0)
  })

  test('never while the volume is a copy that the operator has not opened yet', async () => {
    mkdirSync(join(tls, 'espalier-copy'))
    expect(await take(2)).toBe(0)
    expect(history.latest()?.values.up).toBe(0)
    writeFileSync(join(tls, 'espalier-copy', 'opened.conf'), '')
    expect(await take(1)).toBe(1)
    rmSync(join(tls, 'espalier-copy'), { recursive: true })
  })

  test('for the size of the database every five minutes while a client is connected', async () => {
    isConnected = true
    await take(21)
    expect(queried.map(statements => statements.length)).toEqual([2, ...Array(9).fill(1), 2, ...Array(9).fill(1), 2])
  })
})

test('a hanging disk is read once, and delays only the first sample, by 2 s', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const history = openHistory('/no/such/directory/samples')
  const disk = Promise.withResolvers<Record<string, number>>()
  let queried = 0
  const sample = createSampler({
    ...{ host: '127.0.0.1', port: 5432, data: tls, tls, history, now: () => 0, log: () => {} },
    postgres: { query: async () => ['{"connections":1}'], isConnected: () => true },
    readSpace: () => {
      queried += 1
      return disk.promise
    },
  })
  for (let index = 0; index < 3; index++) {
    const taken = sample(true)
    await vi.advanceTimersByTimeAsync(2_000)
    expect(await taken).toBe(true)
  }
  expect(queried).toBe(1)
  expect(history.latest()?.values).toMatchObject({ connections: 1, volume_used_bytes: null })
  disk.resolve({ volume_used_bytes: 7 })
  await disk.promise
  await sample(true)
  await sample(true)
  expect(history.latest()?.values).toMatchObject({ volume_used_bytes: 7 })
})

describe('hasConnection for a table', () => {
  const table = (...lines: string[]) =>
    ['  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid', ...lines].join('\n')
  const line = (local: string, state: string) => `   0: ${local} 0100007F:C350 ${state} 00000000:00000000 00:00000000`
  test.each([
    ['no connections', false, table(), '127.0.0.1'],
    ['an open connection', true, table(line('0100007F:1538', '01')), '127.0.0.1'],
    ['a listening socket', false, table(line('0100007F:1538', '0A')), '127.0.0.1'],
    ['a closed connection', false, table(line('0100007F:1538', '06')), '127.0.0.1'],
    ['another address', false, table(line('0200007F:1538', '01')), '127.0.0.1'],
    [
      "a client's end of a connection to this address and port",
      false,
      table(`   0: 0200007F:C350 0100007F:1538 01 0`),
      '127.0.0.1',
    ],
    ['another port', false, table(line('0100007F:1539', '01')), '127.0.0.1'],
    ['a connection over IPv6', true, table(line('B80D0120000000000000000001000000:1538', '01')), '2001:db8::1'],
  ])('with %s returns %s', (_, found, text, host) => {
    expect(hasConnection(connectedEnds(text), host, 5432)).toBe(found)
  })
})
