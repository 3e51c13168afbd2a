import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { connect } from 'node:net'
import pino from 'pino'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createListeners } from './listeners.ts'
import { freePort, listen, ownLoopback, until } from './testing/sockets.ts'

function listenersOn(host: string) {
  const accepted: number[] = []
  const recovered = { times: 0 }
  const listeners = createListeners({
    host,
    onConnection: (port, socket) => {
      accepted.push(port)
      socket.on('error', () => {}).pipe(socket)
      onTestFinished(() => void socket.destroy())
    },
    onRecovered: () => {
      recovered.times++
    },
    logger: pino({ level: 'silent' }),
  })
  onTestFinished(() => listeners.close())
  return { listeners, accepted, recovered }
}

async function dial(host: string, port: number) {
  const socket = connect({ host, port })
  onTestFinished(() => void socket.destroy())
  await once(socket, 'connect')
  return socket
}

test('listens on exactly the ports that were set last', async () => {
  const host = ownLoopback()
  const [one, two] = [await freePort(host), await freePort(host)]
  const { listeners, accepted } = listenersOn(host)
  listeners.setPorts(new Set([one]))
  await listeners.opened()
  await dial(host, one)
  await expect(dial(host, two)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  listeners.setPorts(new Set([two]))
  await listeners.opened()
  await dial(host, two)
  await expect(dial(host, one)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  await until('both connections are accepted', () => accepted.length === 2)
  expect(accepted).toEqual([one, two])
})

test('a closed listener keeps its connections, and another program can listen on its port at once', async () => {
  const host = ownLoopback()
  const port = await freePort(host)
  const { listeners } = listenersOn(host)
  listeners.setPorts(new Set([port]))
  await listeners.opened()
  const socket = await dial(host, port)
  listeners.setPorts(new Set())
  listeners.setPorts(new Set([port]))
  await listeners.opened()
  expect(listeners.refused()).toEqual([])
  socket.write('still here')
  expect(String((await once(socket, 'data'))[0])).toBe('still here')
  await dial(host, port)
})

test('the gateway does not listen on a port that is set and removed immediately', async () => {
  // Resolving a name takes a moment, so the listener is closed before it is open.
  const host = 'localhost'
  const port = await freePort(host)
  const { listeners } = listenersOn(host)
  listeners.setPorts(new Set([port]))
  listeners.setPorts(new Set())
  await listeners.opened()
  await lookup(host)
  await new Promise(resolve => setImmediate(resolve))
  await expect(dial(host, port)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
})

test('a port in use is reported and retried; once it is free, the gateway listens on it', async () => {
  const host = ownLoopback()
  const { server, port } = await listen(host, socket => socket.destroy())
  const { listeners, recovered } = listenersOn(host)
  listeners.setPorts(new Set([port]))
  await listeners.opened()
  expect(listeners.refused()).toEqual([port])
  server.close()
  await until('the gateway listens on the port', () => recovered.times === 1)
  expect(listeners.refused()).toEqual([])
  await dial(host, port)
})

test('a port in use is no longer retried once it has no route', async () => {
  const host = ownLoopback()
  const { server, port } = await listen(host, socket => socket.destroy())
  onTestFinished(() => void server.close())
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const { listeners } = listenersOn(host)
  listeners.setPorts(new Set([port]))
  await listeners.opened()
  expect(vi.getTimerCount()).toBe(1)
  listeners.setPorts(new Set())
  expect(listeners.refused()).toEqual([])
  // There must be no retry, because another program could use the port by then.
  expect(vi.getTimerCount()).toBe(0)
})

test('closed listeners stay closed', async () => {
  const host = ownLoopback()
  const port = await freePort(host)
  const { listeners } = listenersOn(host)
  listeners.close()
  listeners.setPorts(new Set([port]))
  await listeners.opened()
  await expect(dial(host, port)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
})
