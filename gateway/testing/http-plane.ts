/**
 * Tests of HTTPS requests for every data plane. All planes run the same tests, so that a client cannot distinguish
 * them. For random requests, the results are compared with `decideRequest`.
 */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type HttpRoute, httpRouteName, type RouteTarget, routeKey } from '../../routes/route.ts'
import { decideRequest } from '../http/decision.ts'
import { httpLimits } from '../http/limits.ts'
import { refusalBody } from '../http/refusal.ts'
import { buildHosts, type HostTable } from '../http/table.ts'
import { chromiumPreflight } from './chromium.ts'
import { dialTls, type Listener, open, sendRequest, type TestRequest } from './http-client.ts'
import { openService, type Received, type TestService } from './http-services.ts'
import { describeHttp2 } from './http2-plane.ts'
import { until } from './sockets.ts'

type TestHttpPlane = Listener & {
  /** Names, beside its addresses, at which clients reach databases by the path. */
  ownNames: ReadonlySet<string>
  /** Resolves once no request is checked with an earlier table. */
  put(hosts: HostTable): Promise<void>
  close(): Promise<void>
}
export type OpenHttpPlane = (addressOf: (target: RouteTarget) => string | undefined) => Promise<TestHttpPlane>

type Service = HttpRoute['services'][number]
const id = '9b2f7a6e-0c1d-4e5f-8a9b-000000000001'
const otherId = '9b2f7a6e-0c1d-4e5f-8a9b-000000000002'
const [shop, other, asleep, broken] = ['shop.db.test', 'other.db.test', 'asleep.db.test', 'broken.db.test']
export const nameWithoutRoute = 'nobody.db.test'
const token = 'a-bearer-token'
const client = '127.0.0.5'
const otherClient = '127.0.0.6'
const everyone = ['0.0.0.0/0']

type Services = Record<'tools' | 'bridge' | 'rest' | 'rag' | 'other', TestService>

const routeOf = (host: string, databaseId: string, services: Service[]): HttpRoute => ({
  ...{ kind: 'http', host, databaseId, label: host.split('.')[0] ?? '', services },
})
const hostsOf = (routes: HttpRoute[], unreadable: string[] = []): HostTable => {
  const map = (host: string, text: string) => ({
    ...({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: httpRouteName(host) } } as const),
    data: { [routeKey]: text },
  })
  return buildHosts([
    ...routes.map(route => map(route.host, JSON.stringify(route))),
    ...unreadable.map(host => map(host, 'not JSON')),
  ]).table
}

const bearing = (authorization: string | undefined): Record<string, string> =>
  authorization === undefined ? {} : { authorization }
const tokenDigest = createHash('sha256').update(token).digest('hex')

/** @param own the rules of the first database */
function routesTo(services: Services, own = [`${client}/32`]): HttpRoute[] {
  const to = (
    type: Service['service'],
    name: keyof Services,
    rules: string[],
    more: Partial<Service> = {},
  ): Service => ({
    ...{ service: type, target: { namespace: 'n', service: name, port: services[name].port }, rules },
    ...more,
  })
  const missing = { target: { namespace: 'n', service: 'gone', port: 1 } }
  return [
    routeOf(shop, id, [
      to('mcp', 'tools', own, { bridgePort: services.bridge.port }),
      to('rest', 'rest', own),
      to('rag', 'rag', own, { tokenDigest }),
    ]),
    routeOf(other, otherId, [to('mcp', 'other', everyone), to('rag', 'other', everyone)]),
    routeOf(asleep, '9b2f7a6e-0c1d-4e5f-8a9b-000000000003', [
      to('rest', 'rest', everyone, { unavailable: 'suspended' }),
      to('mcp', 'other', everyone, { ...missing, unavailable: 'starting' }),
      to('rag', 'other', everyone, { ...missing, tokenDigest }),
    ]),
  ]
}

export function describeHttpPlane(name: string, openPlane: OpenHttpPlane): void {
  describe(`HTTPS of ${name}`, () => {
    let plane: TestHttpPlane
    let services: Services
    let hosts: HostTable

    beforeAll(async () => {
      const tools = await openService('tools')
      services = {
        tools,
        bridge: await openService('bridge', tools.host),
        rest: await openService('rest'),
        rag: await openService('rag'),
        other: await openService('other'),
      }
      const byName = new Map(Object.entries(services))
      plane = await openPlane(({ service, port }) => {
        const found = byName.get(service)
        return found && `${found.host}:${port}`
      })
      hosts = hostsOf(routesTo(services), [broken])
      await plane.put(hosts)
    })
    afterAll(async () => {
      await plane.close()
      for (const each of Object.values(services)) await each.close()
    })

    const send = (sent: TestRequest) => sendRequest(plane, { name: shop, from: client, ...sent })
    const forwarded = async (sent: TestRequest): Promise<Received> => {
      const { status, body } = await send(sent)
      expect({ status, body }).toMatchObject({ status: 200 })
      return JSON.parse(body)
    }
    const refused = async (sent: TestRequest) => {
      const { status, headers, body } = await send(sent)
      expect(headers['content-type']).toBe('application/json')
      const { code, message, ...others } = JSON.parse(body)
      expect([code, others]).toEqual([status, {}])
      return { status, message: String(message), headers }
    }

    test.each([
      ['/rest', 'rest', '/', '/rest'],
      ['/rest/films?id=eq.1&name=a%20b', 'rest', '/films?id=eq.1&name=a%20b', '/rest'],
      ['/rest?select=*', 'rest', '/?select=*', '/rest'],
      ['/mcp', 'bridge', '/mcp', undefined],
      ['/mcp/v1', 'tools', '/mcp/v1', undefined],
      ['/mcp/api/conversations', 'tools', '/api/conversations', '/mcp'],
      ['/mcp/health', 'tools', '/health', '/mcp'],
      ['/.well-known/oauth-authorization-server', 'bridge', '/.well-known/oauth-authorization-server', undefined],
      ['/oauth/token', 'bridge', '/oauth/token', undefined],
      ['/register', 'bridge', '/register', undefined],
    ])('%s is served by %s', async (path, as, url, prefix) => {
      const got = await forwarded({ path })
      expect(got).toMatchObject({ as, url })
      expect(got.headers['x-forwarded-prefix']).toBe(prefix)
    })

    test("at the gateway's address, the path names the database", async () => {
      for (const [path, as, url, prefix] of [
        [`/${id}/rest/films?a=b`, 'rest', '/films?a=b', `/${id}/rest`],
        [`/${id}/rest`, 'rest', '/', `/${id}/rest`],
        [`/${id}/mcp`, 'bridge', '/mcp', `/${id}`],
        [
          `/.well-known/oauth-protected-resource/${id}/mcp`,
          'bridge',
          `/.well-known/oauth-protected-resource/${id}/mcp`,
          undefined,
        ],
      ] as const) {
        const got = await forwarded({ name: '', path })
        expect(got).toMatchObject({ as, url })
        expect(got.headers['x-forwarded-prefix']).toBe(prefix)
      }
      for (const path of [`/${id}`, '/rest', '/', '/9b2f7a6e-0c1d-4e5f-8a9b-00000000000f/rest'])
        expect(await refused({ name: '', path })).toMatchObject({ status: 404 })
      // At the host name of a database, the path cannot name another database.
      expect(await refused({ path: `/${id}/rest` })).toMatchObject({ status: 404 })
    })

    test("the service gets the client's address, and no forwarding headers that the client sent", async () => {
      const claims = [
        'x-forwarded-for',
        'x-forwarded-host',
        'x-forwarded-proto',
        'x-forwarded-prefix',
        'x-forwarded-port',
        'x-real-ip',
        'forwarded',
      ]
      const { headers } = await forwarded({
        path: '/mcp/v1',
        method: 'POST',
        headers: {
          ...Object.fromEntries(claims.map(claim => [claim, 'evil'])),
          'x-mine': 'kept',
          authorization: 'Bearer own',
        },
        body: 'x',
      })
      expect(headers).toMatchObject({
        'x-forwarded-for': client,
        'x-forwarded-host': shop,
        'x-forwarded-proto': 'https',
        host: shop,
        'x-mine': 'kept',
        authorization: 'Bearer own',
      })
      expect(JSON.stringify(headers)).not.toContain('evil')
    })

    test('an address outside of the allowlist is refused, and admitted from the next request on after a change', async () => {
      const sent = { path: '/rest/films', from: otherClient }
      expect(await refused(sent)).toMatchObject({
        status: 403,
        message: `the allowlist of the service rest of shop does not admit the address ${otherClient}`,
      })
      const before = services.rest.count()
      await refused(sent)
      expect(services.rest.count()).toBe(before)
      onTestFinished(() => plane.put(hosts))
      await plane.put(hostsOf(routesTo(services, ['127.0.0.0/8']), [broken]))
      expect(await forwarded(sent)).toMatchObject({ as: 'rest' })
      await plane.put(hosts)
      expect(await refused(sent)).toMatchObject({ status: 403 })
    })

    test('rag requires its token', async () => {
      const requestWith = (authorization?: string) => ({ path: '/rag/v1/pipelines', headers: bearing(authorization) })
      const missing = await refused(requestWith())
      expect(missing).toMatchObject({ status: 401, message: 'this service requires a bearer token' })
      expect(missing.headers['www-authenticate']).toBe('Bearer realm="rag"')
      for (const wrong of ['Bearer wrong', `Basic ${token}`, token, `Bearer ${token} more`, 'Bearer'])
        expect(await refused(requestWith(wrong)), wrong).toMatchObject({ status: 401 })
      for (const right of [`Bearer ${token}`, `bearer  ${token}`]) {
        const got = await forwarded(requestWith(right))
        expect(got).toMatchObject({ as: 'rag', url: '/v1/pipelines' })
        expect(got.headers.authorization).toBeUndefined()
      }
      // Without a digest no token is valid.
      expect(await refused({ ...requestWith(`Bearer ${token}`), name: other })).toMatchObject({ status: 401 })
    })

    test('a preflight needs no token, and gives access to nothing else', async () => {
      const requestWith = (more: Partial<TestRequest> = {}): TestRequest => ({
        ...{ path: '/rag/v1/pipelines/docs', method: 'OPTIONS', headers: chromiumPreflight },
        ...more,
      })
      expect(await forwarded(requestWith())).toMatchObject({ as: 'rag', method: 'OPTIONS', url: '/v1/pipelines/docs' })
      const { headers } = await forwarded(
        requestWith({ headers: { ...chromiumPreflight, authorization: 'Bearer other' } }),
      )
      expect(headers.authorization).toBeUndefined()
      // Allowlists also apply to a preflight.
      expect(await refused(requestWith({ from: otherClient }))).toMatchObject({ status: 403 })
      const { origin: _, ...withoutOrigin } = chromiumPreflight
      const { 'access-control-request-method': __, ...withoutMethod } = chromiumPreflight
      for (const other of [
        requestWith({ headers: withoutOrigin }),
        requestWith({ headers: withoutMethod }),
        requestWith({ method: 'POST' }),
        requestWith({ method: 'GET' }),
        requestWith({ body: 'x', headers: { ...chromiumPreflight, 'content-length': '1' } }),
        requestWith({ body: 'x', headers: { ...chromiumPreflight, 'transfer-encoding': 'chunked' } }),
        requestWith({ headers: { ...chromiumPreflight, connection: 'origin' } }),
      ])
        expect(await refused(other)).toMatchObject({ status: 401 })
    })

    test('an unavailable service has a reason and a Retry-After', async () => {
      const suspended = await refused({ name: asleep, path: '/rest/x' })
      expect(suspended).toMatchObject({ status: 503, message: expect.stringContaining('suspended') })
      expect(suspended.headers['retry-after']).toBe('30')
      const starting = await refused({ name: asleep, path: '/mcp/v1' })
      expect(starting).toMatchObject({ status: 503, message: expect.stringContaining('starting') })
      const headers = { authorization: `Bearer ${token}` }
      const refusal = await refused({ name: asleep, path: '/rag/v1', headers })
      expect(refusal).toMatchObject({ status: 503, message: expect.stringContaining('does not accept connections') })
      expect(refusal.headers['retry-after']).toBeDefined()
    })

    test.each<[string, TestRequest, number]>([
      ['an unknown host', { name: nameWithoutRoute, path: '/rest/x' }, 404],
      ['a path that belongs to no service', { path: '/restx' }, 404],
      ['a missing service', { name: other, path: '/rest/x' }, 404],
      ['a missing bridge', { name: other, path: '/mcp' }, 404],
      ['a route that cannot be read', { name: broken, path: '/rest/x' }, 404],
      ['a host that differs from the TLS server name', { path: '/mcp/v1', headers: { host: other } }, 421],
      ['a path with encoded dot segments', { path: '/rest/%2e%2e/mcp/v1' }, 400],
      [
        'a WebSocket',
        {
          path: '/rest/x',
          headers: {
            ...{ connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13' },
            'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
          },
        },
        501,
      ],
    ])('%s is refused', async (_, sent, status) => {
      expect(await refused(sent)).toMatchObject({ status })
    })

    test('the status and headers of a service are forwarded', async () => {
      const { status, headers, body } = await send({ path: '/rest/status/404' })
      expect([status, headers['x-own'], JSON.parse(body).as]).toEqual([404, 'rest', 'rest'])
    })

    test('bodies of every kind arrive completely', async () => {
      const body = Buffer.alloc(3_000_000, 'x')
      for (const [name, value] of [
        ['content-length', String(body.length)],
        ['transfer-encoding', 'chunked'],
      ] as const) {
        const got = await forwarded({ path: '/rest/films', method: 'POST', headers: { [name]: value }, body })
        expect(got).toMatchObject({ bytes: body.length })
      }
    })

    test('each request of a connection is routed by its own host', async () => {
      const socket = await dialTls(plane, '', client)
      onTestFinished(() => void socket.destroy())
      let received = ''
      socket.on('data', bytes => (received += bytes))
      for (const [host, as] of [
        [shop, 'tools'],
        [other, 'other'],
        [shop, 'tools'],
      ] as const) {
        received = ''
        socket.write(`GET /mcp/v1 HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
        await until('the service answers', () => received.includes('"bytes"'))
        expect(received).toContain(`"as":"${as}"`)
      }
    })

    test("events arrive as they are sent, also after a change of the rules, and the service detects a client's disconnect", async () => {
      const stream = await open(plane, { name: shop, from: client, path: '/mcp/v1/events' })
      expect(stream.headers['content-type']).toBe('text/event-stream')
      let received = ''
      stream.setEncoding('utf8').on('data', (text: string) => (received += text))
      for (const event of ['one', 'two']) {
        services.tools.send(event)
        await until(`the client receives the event ${event}`, () => received.includes(event), 2_000)
      }
      onTestFinished(() => plane.put(hosts))
      await plane.put(hostsOf(routesTo(services, []), [broken]))
      expect(await refused({ path: '/mcp/v1' })).toMatchObject({ status: 403 })
      services.tools.send('three')
      await until('the client receives the event three', () => received.includes('three'), 2_000)
      stream.destroy()
      await until('the stream at the service is closed', () => services.tools.streams() === 0, 5_000)
    })

    test('an aborted request does not reach the service as a complete request', async () => {
      const before = services.rest.count()
      const socket = await dialTls(plane, shop, client)
      socket.write(`POST /rest/films HTTP/1.1\r\nHost: ${shop}\r\nContent-Length: 10\r\n\r\nabc`)
      await new Promise(resolve => setTimeout(resolve, 50))
      socket.destroy()
      const { status } = await send({ path: '/rest/films' })
      expect([status, services.rest.count() - before]).toEqual([200, expect.any(Number)])
    })

    test.each([
      ['two Content-Length headers', 'Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd'],
      ['no headers', '\u0000\u0001\u0002\r\n\r\n'],
      ['two Host headers', 'Host: other.db.test\r\n\r\n'],
    ])('%s are refused', async (_, text) => {
      const socket = await dialTls(plane, shop, client)
      socket.write(`POST /mcp/v1 HTTP/1.1\r\nHost: ${shop}\r\n${text}`)
      const [answer] = await once(socket, 'data')
      socket.destroy()
      expect(String(answer)).toMatch(/^HTTP\/1.1 4[0-9]{2} /)
    })

    test.each(['content-length', 'transfer-encoding'])(
      'a body above the limit is aborted, by its %s',
      async header => {
        const before = services.rest.wholes()
        const piece = Buffer.alloc(1024 * 1024)
        const body = [...Array.from({ length: httpLimits.bodyBytes / piece.length }, () => piece), Buffer.from('x')]
        const value = header === 'content-length' ? String(httpLimits.bodyBytes + 1) : 'chunked'
        // The response may be lost if the client is still sending.
        const answer = await send({ path: '/rest/films', method: 'POST', headers: { [header]: value }, body }).catch(
          () => undefined,
        )
        if (answer !== undefined) expect([answer.status, JSON.parse(answer.body).code]).toEqual([413, 413])
        expect(services.rest.wholes()).toBe(before)
        expect(await forwarded({ path: '/rest/films' })).toMatchObject({ as: 'rest' })
      },
      30_000,
    )

    describeHttp2({ listener: () => plane, name: shop, from: client, service: () => services.tools })

    const anyPath = fc
      .array(
        fc.constantFrom(
          'rest',
          'mcp',
          'rag',
          'v1',
          'api',
          'health',
          'oauth',
          'register',
          '.well-known',
          id,
          'x',
          '',
          '..',
          '%2E%2e',
          'a%2fb',
          'rest.',
        ),
        { maxLength: 4 },
      )
      .map(parts => `/${parts.join('/')}`)
    const anyRequest = fc.record({
      path: fc.tuple(anyPath, fc.constantFrom('', '?', '?a=b', '?x=/../y')).map(parts => parts.join('')),
      name: fc.constantFrom(shop, other, asleep, broken, nameWithoutRoute, ''),
      from: fc.constantFrom(client, otherClient),
      authorization: fc.constantFrom(undefined, `Bearer ${token}`, 'Bearer x', 'Basic x'),
      method: fc.constantFrom('GET', 'OPTIONS', 'DELETE'),
      cors: fc.constantFrom({}, { origin: 'https://app.example' }, chromiumPreflight),
    })
    test('random requests get the result of decideRequest', async () => {
      await fc.assert(
        fc.asyncProperty(anyRequest, async ({ path, name, from, authorization, method, cors }) => {
          const host = name === '' ? `${plane.host}:${plane.port}` : name
          const isPreflight = method === 'OPTIONS' && cors === chromiumPreflight
          const facts = { host, sni: name || undefined, target: path, address: from, authorization, isPreflight }
          const expected = decideRequest(hosts, plane.ownNames, facts)
          const { status, body } = await sendRequest(plane, {
            ...{ path, name, from, method },
            headers: { ...bearing(authorization), ...cors },
          })
          const isMissing = expected.kind === 'forward' && expected.target.service === 'gone'
          if (expected.kind === 'refuse')
            expect([status, body]).toEqual([expected.refusal.status, refusalBody(expected.refusal)])
          else if (isMissing) expect(status).toBe(503)
          else expect([status, JSON.parse(body).url]).toEqual([200, expected.location.target])
        }),
        { numRuns: process.env.ESPALIER_SOAK ? 2_000 : 100 },
      )
    }, 30_000)

    test('silent connections block no other client', async () => {
      const silent = await Promise.all(Array.from({ length: 600 }, () => dialTcp(plane, '127.0.0.7')))
      onTestFinished(() => {
        for (const socket of silent) socket.destroy()
      })
      expect(await forwarded({ path: '/mcp/v1' })).toMatchObject({ as: 'tools' })
    })
  })
}

async function dialTcp({ host, port }: Listener, from: string): Promise<Socket> {
  const socket = connect({ host, port, localAddress: from })
  socket.on('error', () => {})
  await Promise.race([once(socket, 'connect'), once(socket, 'close')]).catch(() => {})
  return socket
}
