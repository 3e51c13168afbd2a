import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  ca,
  databaseId,
  issue,
  openHttps,
  ragToken,
  shopHost,
  type TestHttps,
  threeServices,
} from '../testing/https.ts'
import { until } from '../testing/sockets.ts'

let it: TestHttps
const reopen = async (limits: Parameters<typeof openHttps>[0]) => {
  await it.close()
  it = await openHttps(limits)
}
beforeEach(async () => {
  it = await openHttps()
})
afterEach(() => it.close())

const readBody = async (message: AsyncIterable<Buffer>): Promise<string> => {
  const chunks: Buffer[] = []
  for await (const chunk of message) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}
/** Returns the request that a service received. */
const mirror = async (target: string) =>
  await it.serve(target, async (message, response) => {
    const body = await readBody(message)
    const { method, url, headers, trailers } = message
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ at: target, method, url, headers, trailers, body }))
  })

/** Sends a complete HTTP/2 request. */
async function ask2(headers: Record<string, string>, body?: string, servername?: string) {
  const session = await it.http2(servername)
  const stream = session.request({ ':authority': shopHost, ...headers }, { endStream: body === undefined })
  if (body !== undefined) stream.end(body)
  const [answered] = await once(stream, 'response')
  let trailers = {}
  stream.on('trailers', found => {
    trailers = found
  })
  return { status: answered[':status'], headers: answered, body: await readBody(stream), trailers, session }
}

describe('a request reaches its service', () => {
  test('over HTTP/1.1 with the headers that the gateway sets, and without hop-by-hop headers', async () => {
    await mirror('rest 80')
    const { status, body } = await it.send('/rest/films?select=a', {
      method: 'POST',
      body: 'text',
      headers: {
        ...{ 'x-forwarded-for': '6.6.6.6', forwarded: 'for=6.6.6.6', 'x-real-ip': '6.6.6.6', 'x-forwarded-user': 'me' },
        ...{
          connection: 'keep-alive, x-mine',
          'x-mine': '1',
          te: 'trailers',
          'x-kept': 'yes',
          authorization: 'Bearer j',
        },
      },
    })
    expect(status).toBe(200)
    const sent = JSON.parse(body)
    expect(sent).toMatchObject({ method: 'POST', url: '/films?select=a', body: 'text' })
    expect(sent.headers).toEqual({
      ...{ 'x-kept': 'yes', authorization: 'Bearer j', host: shopHost, 'x-forwarded-host': shopHost },
      ...{ 'x-forwarded-for': '127.0.0.1', 'x-forwarded-proto': 'https', 'x-forwarded-prefix': '/rest' },
      ...{ 'content-length': '4', connection: 'keep-alive' },
    })
  })

  test('over HTTP/2, through the same connection to the service', async () => {
    const upstream = await mirror('rest 80')
    let connections = 0
    upstream.on('connection', () => connections++)
    const { status, body, session } = await ask2({ ':path': '/rest/x', ':method': 'POST', cookie: 'a=1' }, 'text')
    expect([status, JSON.parse(body)]).toMatchObject([200, { url: '/x', body: 'text', headers: { cookie: 'a=1' } }])
    const stream = session.request({ ':authority': shopHost, ':path': '/rest/y' })
    expect(JSON.parse(await readBody(stream))).toMatchObject({ method: 'GET', url: '/y', body: '' })
    expect(connections).toBe(1)
  })

  test('of mcp at the port of its bridge, and by the id at the address of the gateway', async () => {
    await mirror('mcp 80')
    await mirror('mcp 81')
    expect(JSON.parse((await it.send('/mcp')).body)).toMatchObject({ at: 'mcp 81', url: '/mcp' })
    const byAddress = {
      host: it.host,
      servername: '',
      headers: { host: `${it.host}:${it.port}` },
      rejectUnauthorized: false,
    }
    const { body } = await it.send(`/${databaseId}/mcp/api/x`, { ...byAddress, close: true })
    expect(JSON.parse(body)).toMatchObject({
      ...{ at: 'mcp 80', url: '/api/x' },
      headers: { 'x-forwarded-prefix': `/${databaseId}/mcp`, host: `${it.host}:${it.port}` },
    })
  })

  test('of rag with the token, which is not forwarded', async () => {
    await mirror('rag 80')
    const refused = await it.send('/rag/x')
    expect([refused.status, refused.headers['www-authenticate']]).toEqual([401, 'Bearer realm="rag"'])
    const { status, body } = await it.send('/rag/x', { headers: { authorization: `Bearer ${ragToken}` } })
    expect([status, JSON.parse(body).headers.authorization]).toEqual([200, undefined])
    expect(JSON.stringify(it.lines)).not.toContain(ragToken)
  })

  test.each(['HEAD', 'GET', 'DELETE', 'OPTIONS', 'PUT'])(
    '%s without a body is forwarded without a body',
    async method => {
      await it.serve('rest 80', (message, response) => {
        const { 'transfer-encoding': coding, 'content-length': length } = message.headers
        response.setHeader('x-framing', `${coding} ${length}`)
        response.setHeader('content-length', '5').end('hello')
      })
      for (const answer of [
        await it.send('/rest/', { method }),
        await ask2({ ':path': '/rest/', ':method': method }),
      ]) {
        expect(answer.headers['x-framing']).toBe(method === 'PUT' ? 'undefined 0' : 'undefined undefined')
        expect([answer.status, answer.headers['content-length'], answer.body]).toEqual([
          200,
          '5',
          method === 'HEAD' ? '' : 'hello',
        ])
      }
    },
  )

  test.each([204, 304])(
    'a response with %i, which has no body, is forwarded, and the connection continues',
    async status => {
      await it.serve('rest 80', (_, response) => response.writeHead(status, { etag: '"x"' }).end())
      for (let attempt = 0; attempt < 2; attempt++) {
        expect(await it.send('/rest/')).toMatchObject({ status, body: '', headers: { etag: '"x"' } })
        expect(await ask2({ ':path': '/rest/' })).toMatchObject({ status, body: '' })
      }
      expect((await it.registry.metrics()).match(/open_connections (\d)/)?.[1]).toBe('3')
    },
  )

  test('trailers, Expect: 100-continue and several cookies are forwarded, in both versions', async () => {
    await it.serve('rest 80', async (message, response) => {
      response.writeHead(200, { 'set-cookie': ['a=1', 'b=2'], trailer: 'x-sum' })
      response.write(await readBody(message))
      response.addTrailers({ 'x-sum': '5' })
      response.end()
    })
    const outgoing = request({
      ...{ host: it.host, port: it.port, path: '/rest/', method: 'POST', ca, servername: shopHost, agent: false },
      headers: { host: shopHost, expect: '100-continue', 'content-length': 5 },
    })
    outgoing.flushHeaders()
    await once(outgoing, 'continue')
    outgoing.end('hello')
    const [answer]: IncomingMessage[] = await once(outgoing, 'response')
    expect(await readBody(answer as IncomingMessage)).toBe('hello')
    expect([answer?.trailers, answer?.headers['set-cookie']]).toEqual([{ 'x-sum': '5' }, ['a=1', 'b=2']])
    const second = await ask2({ ':path': '/rest/', ':method': 'POST', expect: '100-continue' }, 'hello')
    expect(second).toMatchObject({
      body: 'hello',
      trailers: { 'x-sum': '5' },
      headers: { 'set-cookie': ['a=1', 'b=2'] },
    })
  })
})

describe('streams', () => {
  test('events arrive one by one, unbuffered, over both versions', async () => {
    let next = (_text: string) => {}
    await it.serve('mcp 81', (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      next = text => response.write(text)
    })
    const outgoing = request({
      ...{ host: it.host, port: it.port, path: '/mcp', ca, servername: shopHost, headers: { host: shopHost } },
    })
    outgoing.end()
    const [answer]: IncomingMessage[] = await once(outgoing, 'response')
    const session = await it.http2()
    for (const events of [answer, session.request({ ':authority': shopHost, ':path': '/mcp' })]) {
      if (events !== answer) await once(events as IncomingMessage, 'response')
      for (const text of ['data: 1\n\n', 'data: 2\n\n']) {
        const arrived = once(events as IncomingMessage, 'data')
        next(text)
        expect(String((await arrived)[0])).toBe(text)
      }
    }
    outgoing.destroy()
  })

  test("a client's disconnect ends the request of the service, but a removed rule does not", async () => {
    let closed = 0
    await it.serve('mcp 81', (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      response.on('close', () => closed++)
    })
    const session = await it.http2()
    const stream = session.request({ ':authority': shopHost, ':path': '/mcp' })
    await once(stream, 'response')
    it.setServices(threeServices.map(each => ({ ...each, rules: [] })))
    expect((await it.send('/mcp')).status).toBe(403)
    const refused = session.request({ ':authority': shopHost, ':path': '/mcp' })
    expect((await once(refused, 'response'))[0][':status']).toBe(403)
    await sleep(50)
    expect([closed, it.server.requests()]).toEqual([0, 1])
    stream.close()
    await until('the stream at the service is closed', () => closed === 1)
    expect(it.server.requests()).toBe(0)
  })

  test('a service that disconnects aborts the response, which is visibly incomplete', async () => {
    await it.serve('rest 80', (message, response) => {
      response.writeHead(200).write('half')
      setTimeout(() => message.socket.destroy(), 20)
    })
    await expect(it.send('/rest/')).rejects.toThrow('aborted')
    const session = await it.http2()
    const stream = session.request({ ':authority': shopHost, ':path': '/rest/' })
    await expect(readBody(stream)).rejects.toThrow('NGHTTP2_INTERNAL_ERROR')
  })

  test('a client that aborts its body does not complete it at the service', async () => {
    const seen: string[] = []
    await it.serve('rest 80', message => {
      message.on('data', () => seen.push('data')).on('end', () => seen.push('end'))
      message.on('error', () => seen.push('cut'))
    })
    const session = await it.http2()
    const stream = session.request({ ':authority': shopHost, ':path': '/rest/', ':method': 'POST' })
    stream.on('error', () => {})
    stream.write('half')
    await until('the service receives the data of the HTTP/2 request', () => seen.length === 1)
    session.destroy()
    await until('the HTTP/2 request is aborted at the service', () => seen.length === 2)
    const socket = await it.raw()
    socket.write(`POST /rest/ HTTP/1.1\r\nHost: ${shopHost}\r\nContent-Length: 100\r\n\r\nhalf`)
    await until('the service receives the data of the HTTP/1.1 request', () => seen.length === 3)
    socket.destroy()
    await until('the HTTP/1.1 request is aborted at the service', () => seen.length === 4)
    expect(seen).toEqual(['data', 'cut', 'data', 'cut'])
  })

  test('a slow reader slows the service down, and gets the complete response', async () => {
    const size = 24 * 1024 * 1024
    let written = 0
    await it.serve('rest 80', (_, response) => {
      const chunk = Buffer.alloc(64 * 1024)
      const more = () => {
        while (written < size) {
          written += chunk.length
          if (!response.write(chunk)) {
            response.once('drain', more)
            return
          }
        }
        response.end()
      }
      more()
    })
    const outgoing = request({
      ...{ host: it.host, port: it.port, path: '/rest/', ca, servername: shopHost, headers: { host: shopHost } },
    })
    outgoing.end()
    const [answer]: IncomingMessage[] = await once(outgoing, 'response')
    answer?.pause()
    await sleep(200)
    expect(written).toBeLessThan(size)
    expect((await readBody(answer as IncomingMessage)).length).toBe(size)
  })
})

describe('pods of a service', () => {
  test('a pod that refuses connections is skipped, with any method', async () => {
    const closed = await mirror('rest 80')
    closed.close()
    await mirror('rest 80')
    for (let attempt = 0; attempt < 4; attempt++)
      expect((await it.send('/rest/', { method: 'POST', body: 'x' })).status).toBe(200)
  })

  test('the next request uses another pod, and the running request completes', async () => {
    let end = () => {}
    await it.serve('rest 80', (_, response) => {
      response.write('old')
      end = () => response.end(' pod')
    })
    const slow = it.send('/rest/')
    await until('the request is in progress', () => it.server.requests() === 1)
    await sleep(20)
    it.addresses.delete('rest 80')
    await it.serve('rest 80', (_, response) => response.end('new pod'))
    expect((await it.send('/rest/')).body).toBe('new pod')
    end()
    expect((await slow).body).toBe('old pod')
  })

  test('an idle connection that the service has closed does not fail a safe request', async () => {
    const requests: string[] = []
    await it.serve('rest 80', (message, response) => {
      requests.push(message.method ?? '')
      // The service keeps the connection open, and closes it at the second request.
      if (requests.length === 2) message.socket.destroy()
      else response.end('ok')
    })
    expect((await it.send('/rest/')).status).toBe(200)
    expect((await it.send('/rest/')).status).toBe(200)
    expect(requests).toEqual(['GET', 'GET', 'GET'])
  })

  test('an unsafe request is sent once', async () => {
    let requests = 0
    await it.serve('rest 80', message => {
      requests++
      message.socket.destroy()
    })
    expect(await it.send('/rest/', { method: 'POST' })).toMatchObject({
      status: 502,
      body: expect.stringContaining('502'),
    })
    expect(requests).toBe(1)
    expect(it.lines.some(({ level, msg }) => level === 40 && msg.startsWith('a service closed'))).toBe(true)
  })

  test('without pods the response is 503 with Retry-After, over both versions', async () => {
    for (const { status, headers, body } of [await it.send('/rest/'), await ask2({ ':path': '/rest/' })]) {
      expect([status, headers['retry-after'], headers['content-type']]).toEqual([503, '2', 'application/json'])
      expect(JSON.parse(body)).toEqual({ code: 503, message: 'the service rest does not accept connections now' })
    }
  })
})

describe('refusals', () => {
  test('the status is 421 if the TLS server name differs, 501 for WebSocket and CONNECT, and 503 without the control plane', async () => {
    await mirror('rest 80')
    expect((await ask2({ ':path': '/rest/' }, undefined, 'other-1.db.test')).status).toBe(421)
    const upgrade = { connection: 'upgrade', upgrade: 'websocket', 'sec-websocket-key': 'x' }
    expect(await it.send('/rest/', { headers: upgrade })).toMatchObject({
      ...{ status: 501, body: expect.stringContaining('WebSocket') },
    })
    const socket = await it.raw()
    socket.write(`CONNECT ${shopHost}:443 HTTP/1.1\r\nHost: ${shopHost}\r\n\r\n`)
    expect(await readBody(socket)).toMatch(/^HTTP\/1.1 501 /)
    const session = await it.http2()
    const stream = session.request({ ':method': 'CONNECT', ':authority': shopHost })
    expect((await once(stream, 'response'))[0][':status']).toBe(501)
    it.admit.value = false
    expect(await it.send('/rest/')).toMatchObject({ status: 503, headers: { 'retry-after': '5' } })
  })

  test('a large body is refused by its announced length before it is sent; without a length, by its bytes', async () => {
    await reopen({ bodyBytes: 1000, discardedBytes: 1000 })
    await mirror('rest 80')
    const headers = { 'content-length': '2000' }
    const outgoing = request({
      ...{ host: it.host, port: it.port, path: '/rest/', method: 'POST', ca, servername: shopHost, agent: false },
      headers: { host: shopHost, expect: '100-continue', ...headers },
    })
    outgoing.flushHeaders()
    const [answer]: IncomingMessage[] = await once(outgoing, 'response')
    expect([answer?.statusCode, answer?.headers.connection]).toEqual([413, 'close'])
    outgoing.destroy()
    expect((await it.send('/rest/', { method: 'POST', body: 'x'.repeat(2000) })).status).toBe(413)
    expect((await ask2({ ':path': '/rest/', ':method': 'POST' }, 'x'.repeat(2000))).status).toBe(413)
    expect((await it.send('/rest/', { method: 'POST', body: 'x'.repeat(1000) })).status).toBe(200)
  })

  test('too many requests of one service get 503, and other services continue', async () => {
    await reopen({ requestsPerService: 2 })
    await it.serve('rest 80', () => {})
    await mirror('mcp 81')
    const pending = [it.send('/rest/', { close: true }), it.send('/rest/', { close: true })]
    for (const each of pending) each.catch(() => {})
    await until('both requests are in progress', () => it.server.requests() === 2)
    expect((await it.send('/rest/')).status).toBe(503)
    expect((await it.send('/mcp')).status).toBe(200)
  })

  test('if a service does not start its response in time, the client gets 504', async () => {
    await reopen({ answerMs: 100 })
    await it.serve('rest 80', () => {})
    expect((await it.send('/rest/')).status).toBe(504)
  })
})

test('a new certificate is used for new connections; streams continue', async () => {
  await it.serve('mcp 81', (_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
    setInterval(() => response.write('data: 1\n\n'), 10).unref()
  })
  const session = await it.http2()
  const stream = session.request({ ':authority': shopHost, ':path': '/mcp' })
  await once(stream, 'response')
  const names = async (servername: string) => {
    const socket = await it.raw(servername)
    return socket.getPeerCertificate().subjectaltname
  }
  it.server.setCertificates([issue('*.db.test', 'new.test'), issue('*.other.test')])
  expect(await names(shopHost)).toContain('DNS:new.test')
  expect(await names('x.other.test')).toBe('DNS:*.other.test, IP Address:127.0.0.1')
  expect(() => it.server.setCertificates([{ cert: 'none', key: 'none' }])).toThrow()
  expect(await names(shopHost)).toContain('DNS:new.test')
  await once(stream, 'data')
})

test('metrics count requests by service and status, and log lines contain no query', async () => {
  await mirror('rest 80')
  await it.send('/rest/x?secret=1')
  await it.send('/none')
  await until('both requests have ended', () => it.server.requests() === 0)
  const page = await it.registry.metrics()
  expect(page).toContain('espalier_gateway_http_requests_total{service="rest",code="200"} 1')
  expect(page).toContain('espalier_gateway_http_requests_total{service="none",code="404"} 1')
  expect(page).toContain('espalier_gateway_http_hosts 1')
  expect(JSON.stringify(it.lines)).not.toContain('secret')
})

test('a stopping listener closes idle connections, and waits for requests to end', async () => {
  let end = () => {}
  await it.serve('rest 80', (_, response) => {
    end = () => response.end('done')
  })
  const idle = await it.raw()
  const running = it.send('/rest/')
  await until('the request is in progress', () => it.server.requests() === 1)
  await sleep(20)
  const drained = it.server.drain(10_000)
  await once(idle, 'close')
  end()
  expect((await running).body).toBe('done')
  await drained
  expect(it.server.connections()).toBe(0)
})
