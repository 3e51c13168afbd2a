import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import pino from 'pino'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type ConnectionLimits, createConnections } from './connections.ts'
import { createDenialAgent } from './denial/denial.ts'
import { createRefuse } from './denial/refuse.ts'
import { loginLimits } from './logins.ts'
import { createMetrics } from './metrics.ts'
import type { ConnectionDecision } from './table.ts'
import { testCertificate } from './testing/certificate.ts'
import { errorFields, startupMessage } from './testing/client.ts'
import { freePort, listen, received, until } from './testing/sockets.ts'

const certificate = testCertificate('gateway.test')
const host = '127.0.0.1'
const admit: ConnectionDecision = { kind: 'allow', label: 'shop', target: { namespace: 'n', service: 's', port: 5432 } }

type State = { decide: ConnectionDecision; admitting: boolean; address: { host: string; port: number } | undefined }

/** A gateway's listener with one port. `onTarget` runs for each connection to its target. */
async function front(onTarget: (socket: Socket) => void, limits: Partial<ConnectionLimits> = {}) {
  const targets: Socket[] = []
  const target = await listen(host, socket => {
    targets.push(socket.on('error', () => {}))
    onTarget(socket)
  })
  const state: State = { decide: admit, admitting: true, address: { host, port: target.port } }
  const unreachable: number[] = []
  const metrics = createMetrics({ connections: () => connections.count(), routes: () => 1, admitting: () => true })
  const agent = createDenialAgent({ certificate, now: Date.now })
  const connections = createConnections({
    admitting: () => state.admitting,
    decide: () => state.decide,
    resolve: () => state.address,
    refuse: createRefuse({ agent, metrics, now: Date.now, logger: pino({ level: 'silent' }) }),
    limits,
    metrics,
    onUnreachable: port => void unreachable.push(port),
  })
  const { server, port } = await listen(host, socket => connections.accept(6000, socket))
  const clients: Socket[] = []
  onTestFinished(() => {
    for (const socket of [...clients, ...targets]) socket.destroy()
    for (const each of [server, target.server]) each.close()
    agent.close()
  })
  const dial = async (): Promise<Socket> => {
    const socket = connect({ port, host, allowHalfOpen: true })
    clients.push(socket.on('error', () => {}))
    await once(socket, 'connect')
    return socket
  }
  const outcomes = async () => {
    const { values } = (await metrics.registry.getSingleMetric('espalier_gateway_connections_total')?.get()) ?? {}
    return Object.fromEntries((values ?? []).map(({ labels, value }) => [labels.outcome, value]))
  }
  return { dial, state, connections, targets, outcomes, unreachable }
}

/** The response to a client's StartupMessage. */
async function refusalOf(socket: Socket) {
  socket.write(startupMessage())
  const answer = await received(socket)
  socket.destroy()
  return errorFields(answer)
}

/** A port that neither accepts nor refuses connections: its process is stopped, and its queue is full. */
async function unresponsivePort(): Promise<number> {
  const script = `require('net').createServer().listen({ port: 0, host: '${host}', backlog: 1 }, function () {
    console.log(this.address().port)
  })`
  const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  const port = Number(String((await once(child.stdout, 'data'))[0]))
  child.kill('SIGSTOP')
  const queued = Array.from({ length: 8 }, () => connect({ host, port }).on('error', () => {}))
  onTestFinished(() => {
    for (const socket of queued) socket.destroy()
  })
  await once(queued[0] ?? child, 'connect')
  return port
}
const echo = (socket: Socket) => void socket.pipe(socket)

describe('an admitted connection', () => {
  test('forwards every byte both ways', async () => {
    const { dial, outcomes } = await front(echo)
    const sent = randomBytes(20 * 1024 * 1024)
    const socket = await dial()
    socket.end(sent)
    const back = await received(socket)
    const digest = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
    expect(digest(back)).toBe(digest(sent))
    expect(await outcomes()).toEqual({ allowed: 1 })
  })

  test('may be half closed by the client, and still gets its response', async () => {
    const { dial, connections } = await front(socket => {
      socket.resume().on('end', () => setTimeout(() => socket.end('answer'), 50))
    })
    const socket = await dial()
    socket.end('question')
    expect((await received(socket)).toString()).toBe('answer')
    await until('every connection is closed', () => connections.count() === 0)
  })

  test('gets the last data of a target that closes', async () => {
    const { dial, connections } = await front(socket =>
      socket.once('data', () => socket.end(Buffer.alloc(300_000, 'x'))),
    )
    const socket = await dial()
    socket.write('question')
    expect((await received(socket)).length).toBe(300_000)
    socket.end()
    await until('every connection is closed', () => connections.count() === 0)
  })

  test("is closed if the target's connection is reset", async () => {
    const { dial, connections } = await front(socket => socket.once('data', () => socket.resetAndDestroy()))
    const socket = await dial()
    socket.write('question')
    expect((await received(socket)).length).toBe(0)
    socket.end()
    await until('every connection is closed', () => connections.count() === 0)
  })

  test("is closed towards the target if the client's connection is reset", async () => {
    const { dial, connections, targets } = await front(socket => void socket.resume())
    const socket = await dial()
    socket.write('question')
    await until('the target is connected', () => targets.length === 1)
    socket.resetAndDestroy()
    await until(
      'the target detects that the client disconnected',
      () => targets[0]?.readableEnded === true || targets[0]?.destroyed === true,
    )
    targets[0]?.end()
    await until('every connection is closed', () => connections.count() === 0)
  })

  test.each<[string, (target: Socket) => void]>([
    ['ends', target => target.resume().end()],
    ['resets the connection', target => target.resetAndDestroy()],
  ])('whose target %s is not left half open by a client that never closes', async (_name, disconnect) => {
    const { dial, connections } = await front(socket => socket.once('data', () => disconnect(socket)), {
      halfOpenMs: 100,
    })
    const socket = await dial()
    socket.write('question')
    await received(socket)
    await until('every connection is closed', () => connections.count() === 0)
  })

  test('whose client closed its half and then disconnected is closed at the next byte for the client', async () => {
    const { dial, connections, targets } = await front(socket => void socket.resume())
    const socket = await dial()
    socket.end('question')
    await until('the target has received the end of the question', () => targets[0]?.readableEnded === true)
    expect(connections.count()).toBe(1)
    socket.destroy()
    await until('the connection is closed at both ends', () => {
      targets[0]?.write('answer')
      return connections.count() === 0 && targets[0]?.destroyed === true
    })
  })

  test('applies backpressure to a target whose client does not read', async () => {
    let written = 0
    const chunk = Buffer.alloc(64 * 1024)
    const { dial } = await front(socket => {
      const pump = () => {
        while (written < 512 * 1024 * 1024) {
          written += chunk.length
          if (!socket.write(chunk)) return void socket.once('drain', pump)
        }
      }
      socket.once('data', pump)
    })
    const socket = await dial()
    socket.pause()
    socket.write('question')
    let before = -1
    await until('the target stops writing while the client does not read', async () => {
      const stalled = written > 0 && written === before
      before = written
      await new Promise(resolve => setTimeout(resolve, 50))
      return stalled
    })
    // The limit covers the kernel's buffers of two connections, and the gateway's own buffers.
    expect(written).toBeLessThan(64 * 1024 * 1024)
    const base = socket.bytesRead
    socket.resume()
    await until('the client receives another 64 MiB once it reads', () => socket.bytesRead > base + 64 * 1024 * 1024)
  })

  test('is not closed by a change of its rules, but a new connection uses the new rules', async () => {
    const { dial, state } = await front(echo)
    const open = await dial()
    open.write('one')
    await once(open, 'data')
    state.decide = { kind: 'deny', label: 'shop' }
    open.write('two')
    expect(String((await once(open, 'data'))[0])).toBe('two')
    expect(await refusalOf(await dial())).toMatchObject({ C: '28000' })
  })
})

describe('a connection is refused', () => {
  test.each<[string, Partial<State>, Record<string, string>, string]>([
    [
      'if no rule admits its address',
      { decide: { kind: 'deny', label: 'shop' } },
      { C: '28000', M: 'no rule of the allowlist of shop admits 127.0.0.1' },
      'denied',
    ],
    [
      'while the gateway cannot reach the control plane',
      { admitting: false },
      { C: '57P03', M: expect.stringContaining('control plane') },
      'out-of-touch',
    ],
    [
      'if no pod of its Service is ready',
      { address: undefined },
      { C: '57P03', M: 'the database is not available now' },
      'unavailable',
    ],
  ])('%s', async (_name, change, expected, outcome) => {
    const { dial, state, connections, outcomes } = await front(echo)
    Object.assign(state, change)
    expect(await refusalOf(await dial())).toMatchObject({ S: 'FATAL', ...expected })
    expect(await outcomes()).toEqual({ [outcome]: 1 })
    await until('every connection is closed', () => connections.count() === 0)
  })

  test('if the target refuses', async () => {
    const { dial, state, unreachable } = await front(echo)
    state.address = { host, port: await freePort(host) }
    expect(await refusalOf(await dial())).toMatchObject({ C: '57P03', M: 'the database is not available now' })
    expect(unreachable).toEqual([6000])
    // If the target has no address, it is not reported as unreachable.
    state.address = undefined
    await refusalOf(await dial())
    expect(unreachable).toEqual([6000])
  })

  test('if the target does not respond in time', async () => {
    const { dial, state } = await front(echo, { connectMs: 100 })
    state.address = { host, port: await unresponsivePort() }
    expect(await refusalOf(await dial())).toMatchObject({ C: '57P03' })
  })

  test('without a response if its port no longer has a route', async () => {
    const { dial, state } = await front(echo)
    state.decide = { kind: 'unknown' }
    expect((await received(await dial())).length).toBe(0)
  })

  test('if the rules change before its first bytes, and the target receives nothing', async () => {
    const { dial, state, targets, connections } = await front(echo)
    const socket = await dial()
    await until('the client is admitted', () => connections.count() === 1)
    state.decide = { kind: 'deny', label: 'shop' }
    expect(await refusalOf(socket)).toMatchObject({ C: '28000' })
    expect(targets).toHaveLength(0)
  })

  test('if the rules change while the gateway connects to the target', async () => {
    const { dial, state, targets } = await front(echo)
    const { address } = state
    Object.defineProperty(state, 'address', {
      get: () => {
        state.decide = { kind: 'deny', label: 'shop' }
        return address
      },
    })
    expect(await refusalOf(await dial())).toMatchObject({ C: '28000' })
    await until('the connection to the target is closed', () =>
      targets.every(each => each.readableEnded || each.destroyed),
    )
  })

  test.each<[string, Partial<ConnectionLimits>]>([
    ['of its route', { perRoute: 2 }],
    ['of all routes together', { total: 2 }],
  ])('above the limit %s, until one closes', async (_name, limits) => {
    const { dial, connections, outcomes } = await front(echo, limits)
    const [first, second] = await Promise.all([dial(), dial()])
    for (const client of [first, second]) client?.write('?')
    await until('two clients are admitted', async () => (await outcomes()).allowed === 2)
    expect(await refusalOf(await dial())).toMatchObject({ C: '53300', M: 'too many connections to shop' })
    first?.destroy()
    await until('one connection remains', () => connections.count() === 1)
    const third = await dial()
    third.write('question')
    expect(String((await once(third, 'data'))[0])).toBe('question')
    expect((await outcomes())['too-many']).toBe(1)
  })
})

test('a client that sends nothing in time is disconnected, and the target receives nothing', async () => {
  const { dial, targets, connections, outcomes } = await front(echo, { firstBytesMs: 100 })
  expect((await received(await dial())).length).toBe(0)
  await until('every connection is closed', () => connections.count() === 0)
  expect(targets).toHaveLength(0)
  expect(await outcomes()).toEqual({ silent: 1 })
})

test('silent connections of an address do not block its other clients', async () => {
  const { dial, connections, outcomes } = await front(echo, { perRoute: 5 })
  const { silentPerAddress } = loginLimits
  const silent = await Promise.all(Array.from({ length: silentPerAddress + 20 }, () => dial()))
  const closed = silent.map(socket => received(socket))
  await until('the 20 oldest connections are closed', async () => (await outcomes()).silent === 20)
  const client = await dial()
  client.write('question')
  expect(String((await once(client, 'data'))[0])).toBe('question')
  expect(connections.count()).toBe(silentPerAddress)
  for (const socket of silent) socket.destroy()
  await Promise.all(closed)
})

test('a client that closes at once, such as a health check, leaves nothing behind', async () => {
  const { dial, targets, connections } = await front(echo)
  for (const close of [(s: Socket) => s.destroy(), (s: Socket) => s.end(), (s: Socket) => s.resetAndDestroy()])
    close(await dial())
  await until('every connection is closed', () => connections.count() === 0)
  expect(targets).toHaveLength(0)
})

describe('draining', () => {
  test('waits for open connections', async () => {
    const { dial, connections } = await front(echo)
    const socket = await dial()
    socket.write('question')
    await once(socket, 'data')
    let drained = false
    const draining = connections.drain(60_000).then(() => {
      drained = true
    })
    socket.write('another')
    expect(String((await once(socket, 'data'))[0])).toBe('another')
    expect(drained).toBe(false)
    socket.end()
    await draining
  })

  test('closes the remaining connections at the end', async () => {
    const { dial, connections } = await front(echo)
    const socket = await dial()
    socket.write('question')
    await once(socket, 'data')
    await connections.drain(50)
    expect(connections.count()).toBe(0)
    await received(socket)
  })
})
