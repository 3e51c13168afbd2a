/** Tests of HTTP/2 clients for every data plane. */
import { once } from 'node:events'
import { type ClientHttp2Session, type ClientHttp2Stream, constants, type OutgoingHttpHeaders } from 'node:http2'
import { describe, expect, onTestFinished, test } from 'vitest'
import { httpLimits } from '../http/limits.ts'
import { type Listener, openHttp2 } from './http-client.ts'
import type { TestService } from './http-services.ts'
import { until } from './sockets.ts'

async function answerOf(stream: ClientHttp2Stream): Promise<{ status: number; body: string }> {
  let body = ''
  const [headers] = await once(stream, 'response')
  for await (const chunk of stream.setEncoding('utf8')) body += chunk
  return { status: Number(headers[':status']), body }
}

/** @param options.service the tool server, at `/mcp/v1` of `name` */
export function describeHttp2(options: {
  listener: () => Listener
  name: string
  from: string
  service: () => TestService
}): void {
  const { listener, name, from, service } = options
  const connect = async (): Promise<ClientHttp2Session> => {
    const session = await openHttp2(listener(), name, from)
    onTestFinished(() => session.destroy())
    return session
  }
  const send = (session: ClientHttp2Session, headers: OutgoingHttpHeaders, body?: Buffer) => {
    const stream = session.request(headers, { endStream: body === undefined })
    stream.on('error', () => {})
    if (body !== undefined) stream.end(body)
    return stream
  }
  const get = (session: ClientHttp2Session, headers: OutgoingHttpHeaders = {}) =>
    answerOf(send(session, { ':authority': name, ':path': '/mcp/v1', ...headers }))

  describe('HTTP/2', () => {
    test('many requests share a connection, each checked separately', async () => {
      const session = await connect()
      expect(session.remoteSettings.maxConcurrentStreams).toBe(httpLimits.streams)
      const [served, refused, misdirected] = await Promise.all([
        get(session),
        get(session, { ':path': '/nowhere' }),
        get(session, { ':authority': 'other.db.test' }),
      ])
      expect(JSON.parse(served?.body ?? '')).toMatchObject({
        as: 'tools',
        headers: { host: name, 'x-forwarded-for': from, 'x-forwarded-proto': 'https' },
      })
      expect([refused?.status, JSON.parse(refused?.body ?? '').code]).toEqual([404, 404])
      expect([misdirected?.status, JSON.parse(misdirected?.body ?? '').code]).toEqual([421, 421])
    })

    test('a body without a length arrives completely; a body above the limit does not', async () => {
      const session = await connect()
      const headers = { ':path': '/mcp/v1', ':method': 'POST' }
      const body = Buffer.alloc(3_000_000)
      const { status, body: text } = await answerOf(send(session, headers, body))
      expect([status, JSON.parse(text).bytes]).toEqual([200, body.length])
      const before = service().wholes()
      const large = send(session, headers, Buffer.alloc(httpLimits.bodyBytes + 1)).resume()
      await once(large, 'close')
      expect(service().wholes()).toBe(before)
      expect((await get(await connect())).status).toBe(200)
    }, 30_000)

    test("events arrive as they are sent, beside other requests, and the service detects a client's disconnect", async () => {
      const session = await connect()
      const stream = send(session, { ':path': '/mcp/v1/events' })
      const [headers] = await once(stream, 'response')
      expect(headers['content-type']).toBe('text/event-stream')
      let received = ''
      stream.setEncoding('utf8').on('data', (text: string) => (received += text))
      for (const event of ['one', 'two']) {
        service().send(event)
        await until(`the client receives the event ${event}`, () => received.includes(event), 2_000)
        expect((await get(session)).status).toBe(200)
      }
      stream.close(constants.NGHTTP2_CANCEL)
      await until('the stream at the service is closed', () => service().streams() === 0, 5_000)
    })

    test('a client that cancels its streams at once blocks no other client', async () => {
      const session = await connect()
      const attack = setInterval(() => {
        for (let attempt = 0; attempt < 4 && !session.destroyed; attempt++)
          send(session, { ':path': '/mcp/v1/events' }).close(constants.NGHTTP2_CANCEL)
      }, 20)
      onTestFinished(() => clearInterval(attack))
      const other = await connect()
      for (let attempt = 0; attempt < 5; attempt++) {
        expect((await get(other)).status).toBe(200)
        await new Promise(resolve => setTimeout(resolve, 50))
      }
      clearInterval(attack)
      await until('every stream at the service is closed', () => service().streams() === 0, 5_000)
    }, 20_000)

    test('an endless header closes only its own connection', async () => {
      const session = await connect()
      const other = await connect()
      const closed = once(session, 'close')
      // 1 MiB of a header: HPACK without compression, in CONTINUATION frames.
      const long = Object.fromEntries(Array.from({ length: 64 }, (_, index) => [`x-${index}`, 'a'.repeat(16 * 1024)]))
      const stream = session.request({ ':path': '/mcp/v1', ...long })
      stream.on('error', () => {})
      const ended = Promise.race([closed, once(stream, 'close'), once(stream, 'response')])
      await ended.catch(() => {})
      expect((await get(other)).status).toBe(200)
    })
  })
}
