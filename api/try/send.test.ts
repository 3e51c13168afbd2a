/** One request to a real server: limits of size and time, disconnections, and faults of the connection. */
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import type { Outgoing } from './outgoing.ts'
import { mostBytes, send } from './send.ts'

const stops: (() => void)[] = []
afterEach(() => {
  for (const stop of stops.splice(0)) stop()
})

const outgoing: Outgoing = { method: 'POST', target: '/x?y', headers: { accept: '*/*' }, body: '{"ä":1}' }

async function serve(listener: RequestListener) {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  stops.push(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  return { host: '127.0.0.1', port }
}

const sendTo = (address: { host: string; port: number }, more: Partial<Parameters<typeof send>[0]> = {}) =>
  send({ address, outgoing, signal: new AbortController().signal, onConnected: () => {}, ...more })

test('is sent as it is, and its response returned', async () => {
  const seen: unknown[] = []
  const address = await serve(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    seen.push([request.method, request.url, request.headers['content-length'], Buffer.concat(chunks).toString()])
    response.writeHead(201, { 'content-type': 'application/json' }).end('[1]')
  })
  const order: string[] = []
  const answer = await sendTo(address, { onConnected: () => order.push(`connected, ${seen.length} seen`) })
  expect(answer).toEqual({ status: 201, contentType: 'application/json', text: '[1]', isCut: false })
  expect(seen).toEqual([['POST', '/x?y', '8', '{"ä":1}']])
  expect(order).toEqual(['connected, 0 seen'])
})

test('a redirect is the response', async () => {
  let requests = 0
  const address = await serve((_, response) => {
    requests++
    response.writeHead(302, { location: '/elsewhere' }).end()
  })
  expect(await sendTo(address)).toMatchObject({ status: 302, contentType: undefined, text: '' })
  expect(requests).toBe(1)
})

test('a body is cut at its limit, between characters', async () => {
  const address = await serve((_, response) => void response.end(`a${'ä'.repeat(mostBytes)}`))
  const { text, isCut } = await sendTo(address)
  expect(isCut).toBe(true)
  expect(text).toBe(`a${'ä'.repeat(mostBytes / 2 - 1)}`)
  const exact = await serve((_, response) => void response.end('x'.repeat(mostBytes)))
  expect(await sendTo(exact)).toMatchObject({ isCut: false, text: 'x'.repeat(mostBytes) })
})

test('a body that does not end is returned at the time limit', async () => {
  const address = await serve((_, response) => void response.write('data: 1\n\n'))
  expect(await sendTo(address, { answerMs: 300 })).toMatchObject({ status: 200, text: 'data: 1\n\n', isCut: true })
})

test('no response within the time limit is an error', async () => {
  const address = await serve(() => {})
  await expect(sendTo(address, { answerMs: 200 })).rejects.toMatchObject({ kind: 'late' })
})

test('a connection that ends before the response, or within it, is an error', async () => {
  const before = await serve(request => void request.socket.destroy())
  await expect(sendTo(before)).rejects.toMatchObject({ kind: 'broken' })
  const within = await serve((request, response) => {
    response.writeHead(200, { 'content-length': '10' }).write('part')
    setTimeout(() => request.socket.destroy(), 20)
  })
  await expect(sendTo(within)).rejects.toMatchObject({ kind: 'broken' })
  const other = createTcpServer(socket => void socket.end('not HTTP\r\n\r\n')).listen(0, '127.0.0.1')
  await once(other, 'listening')
  stops.push(() => other.close())
  const { port } = other.address() as AddressInfo
  await expect(sendTo({ host: '127.0.0.1', port })).rejects.toMatchObject({ kind: 'broken' })
})

test('a service that switches protocols has sent no response', async () => {
  const server = createTcpServer(socket => {
    socket.once('data', () =>
      socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n'),
    )
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  stops.push(() => server.close())
  const { port } = server.address() as AddressInfo
  await expect(sendTo({ host: '127.0.0.1', port })).rejects.toMatchObject({ kind: 'broken' })
})

test('nothing is sent where nothing accepts the connection', async () => {
  const address = await serve(() => {})
  for (const stop of stops.splice(0)) stop()
  let isConnected = false
  const onConnected = () => {
    isConnected = true
  }
  await expect(sendTo(address, { onConnected })).rejects.toMatchObject({ kind: 'refused' })
  const unroutable = { host: '192.0.2.1', port: 3000 }
  await expect(sendTo(unroutable, { onConnected, acceptMs: 100 })).rejects.toMatchObject({
    kind: expect.stringMatching(/^(silent|refused)$/),
  })
  expect(isConnected).toBe(false)
})

test('a client that leaves ends the request, before and after the response begins', async () => {
  for (const begins of [false, true]) {
    const { promise: closed, resolve: close } = Promise.withResolvers<void>()
    const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>()
    const address = await serve((request, response) => {
      request.socket.once('close', close)
      if (begins) response.write('part')
      arrive()
    })
    const controller = new AbortController()
    const sent = sendTo(address, { signal: controller.signal })
    sent.catch(() => {})
    await arrived
    controller.abort()
    await expect(sent).rejects.toMatchObject({ kind: 'canceled' })
    await closed
  }
  const gone = AbortSignal.abort()
  await expect(sendTo(await serve(() => {}), { signal: gone })).rejects.toMatchObject({ kind: 'canceled' })
})
