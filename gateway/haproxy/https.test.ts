/** HTTPS with HAProxy: the tests for every data plane, and tests for HAProxy only. */
import { once } from 'node:events'
import type { ClientHttp2Session } from 'node:http2'
import { connect as connectTcp } from 'node:net'
import { connect } from 'node:tls'
import pino from 'pino'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { certificatesDigest, httpRouteName, routeKey } from '../../routes/route.ts'
import type { Certificate } from '../../server/certificate.ts'
import { buildHosts, type HostTable } from '../http/table.ts'
import { testCertificate } from '../testing/certificate.ts'
import { haproxyVersion, openHaproxy, type TestHaproxy } from '../testing/haproxy.ts'
import { dialTls, open, openHttp2, sendRequest } from '../testing/http-client.ts'
import { describeHttpPlane, nameWithoutRoute, type OpenHttpPlane } from '../testing/http-plane.ts'
import { openService, type TestService } from '../testing/http-services.ts'
import { until } from '../testing/sockets.ts'
import { createHaproxyPlane } from './data-plane.ts'
import type { HttpsOptions } from './https.ts'

const openPlane: OpenHttpPlane = async addressOf => {
  const haproxy = await openHaproxy()
  const plane = createHaproxyPlane({
    ...{ paths: haproxy.paths, ports: haproxy.ports, addressOf, resolvable: () => true, https: true },
    ...{ onRecovered: () => {}, logger: pino({ level: 'silent' }) },
  })
  plane.admitUntil(Date.now() + 3600_000)
  return {
    ...{ host: haproxy.host, port: haproxy.httpsPort, ca: haproxy.certificate.ca },
    // For any name without a route, HAProxy reads the database id from the path, because the agent does not know the
    // gateway's own names.
    ownNames: new Set([nameWithoutRoute]),
    put: async hosts => {
      plane.put(new Map(), hosts)
      await plane.applied()
    },
    close: async () => {
      await plane.stop()
      await haproxy.close()
    },
  }
}

const host = 'shop.db.test'
const hostsWith = (services: string[]): HostTable => {
  const target = { namespace: 'n', service: 'rest', port: 1000 }
  const all = services.map(service => ({ service, target, rules: ['0.0.0.0/0'] }))
  const route = { kind: 'http', host, databaseId: 'one', label: 'shop', services: all }
  const metadata = { name: httpRouteName(host) }
  return buildHosts([{ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { [routeKey]: JSON.stringify(route) } }])
    .table
}

/** The subject of the certificate that HAProxy sends to a client that requests this server name. */
async function shownTo(haproxy: TestHaproxy, servername: string): Promise<string | undefined> {
  const socket = connect({
    ...{ host: haproxy.host, port: haproxy.httpsPort, rejectUnauthorized: false },
    ...(servername === '' ? {} : { servername }),
  })
  await once(socket, 'secureConnect')
  const { CN } = socket.getPeerCertificate().subject
  socket.destroy()
  return typeof CN === 'string' ? CN : undefined
}

if (haproxyVersion === undefined) test.skip('HTTPS with HAProxy: needs haproxy on this machine', () => {})
else {
  describeHttpPlane(`HAProxy ${haproxyVersion}`, openPlane)

  describe(`HTTPS with HAProxy ${haproxyVersion}`, () => {
    let haproxy: TestHaproxy
    let service: TestService
    let plane: ReturnType<typeof createHaproxyPlane>
    const start = async (https?: Partial<HttpsOptions>) => {
      haproxy = await openHaproxy({ ...(https && { https }) })
      service = await openService('rest')
      plane = createHaproxyPlane({
        ...{ paths: haproxy.paths, ports: haproxy.ports, resolvable: () => true, https: true },
        addressOf: () => `${service.host}:${service.port}`,
        ...{ onRecovered: () => {}, logger: pino({ level: 'silent' }) },
      })
      plane.admitUntil(Date.now() + 3600_000)
      plane.put(new Map(), hostsWith(['rest']))
      await plane.applied()
    }
    const stop = async () => {
      await plane.stop()
      await haproxy.close()
      await service.close()
    }
    beforeEach(async () => {
      await start()
      return stop
    })
    const restart = async (https: Partial<HttpsOptions>) => {
      await stop()
      await start(https)
    }
    const listener = () => ({ host: haproxy.host, port: haproxy.httpsPort })
    const request = (path = '/rest/films') =>
      sendRequest(listener(), { name: host, path, headers: { connection: 'keep-alive' } })
    const showing = (name: string, expected: string) =>
      until(
        `HAProxy shows the certificate ${expected} for ${name}`,
        async () => (await shownTo(haproxy, name)) === expected,
      )

    test('certificates are added, renewed and deleted without closing a stream, and pushed again after a restart', async () => {
      const one = testCertificate('*.one.test')
      const two = testCertificate('*.two.test')
      expect(await shownTo(haproxy, 'a.two.test')).toBe('espalier.invalid')
      const stream = await open(listener(), { name: host, path: '/rest/events' })
      let received = ''
      stream.setEncoding('utf8').on('data', (text: string) => (received += text))

      plane.setCertificates(new Map([['one', one]]))
      await showing('a.one.test', '*.one.test')
      expect(await shownTo(haproxy, '')).toBe('*.one.test')
      await until('the plane reports the digest', () => plane.httpsCertificates() === certificatesDigest([one.cert]))
      plane.setCertificates(
        new Map([
          ['one', one],
          ['two', two],
        ]),
      )
      await showing('a.two.test', '*.two.test')
      plane.setCertificates(
        new Map([
          ['one', one],
          ['two', testCertificate('*.renewed.test')],
        ]),
      )
      await showing('a.renewed.test', '*.renewed.test')
      plane.setCertificates(new Map([['one', one]]))
      await showing('a.renewed.test', '*.one.test')
      expect(await haproxy.runCommand('show ssl cert')).not.toContain('region-two')

      service.send('still here')
      await until('the stream continues', () => received.includes('still here'))
      stream.destroy()
      await haproxy.kill('SIGKILL')
      await haproxy.start()
      await showing('a.one.test', '*.one.test')
    })

    test('a certificate that HAProxy refuses blocks neither rules nor other certificates', async () => {
      const two = testCertificate('*.two.test')
      plane.setCertificates(
        new Map<string, Certificate>([
          ['zero', { ...testCertificate('*.zero.test'), cert: 'no PEM' }],
          ['two', two],
        ]),
      )
      await showing('a.two.test', '*.two.test')
      await until('the plane reports that the certificates are refused', () => plane.httpsCertificates() === 'refused')
      plane.put(new Map(), hostsWith([]))
      await plane.applied()
      expect(await request()).toMatchObject({ status: 404 })
      plane.setCertificates(new Map<string, Certificate>([['zero', testCertificate('*.zero.test')]]))
      await showing('a.zero.test', '*.zero.test')
    })

    test("a restarted agent keeps HAProxy's present certificates, and deletes obsolete ones", async () => {
      plane.setCertificates(new Map([['old', testCertificate('*.old.test')]]))
      await showing('a.old.test', '*.old.test')
      await plane.stop()
      plane = createHaproxyPlane({
        ...{ paths: haproxy.paths, ports: haproxy.ports, resolvable: () => true, https: true },
        addressOf: () => `${service.host}:${service.port}`,
        ...{ onRecovered: () => {}, logger: pino({ level: 'silent' }) },
      })
      plane.setCertificates(new Map([['new', testCertificate('*.new.test')]]))
      plane.admitUntil(Date.now() + 3600_000)
      plane.put(new Map(), hostsWith(['rest']))
      await showing('a.new.test', '*.new.test')
      await until(
        'the old certificate is deleted',
        async () => !(await haproxy.runCommand('show ssl cert')).includes('region-old'),
      )
      expect(await request()).toMatchObject({ status: 200 })
    })

    test('a restarted HAProxy serves requests once it has every route', async () => {
      await haproxy.kill('SIGKILL')
      await haproxy.start()
      await until('HAProxy serves requests', async () => (await request()).status === 200)
    })

    test('after the deadline, HAProxy answers 503 with Retry-After', async () => {
      plane.admitUntil(0)
      await plane.applied()
      const { status, headers, body } = await request()
      expect([status, headers['retry-after'], JSON.parse(body).code]).toEqual([503, '5', 503])
    })

    test('a stopping replica asks HTTP/2 clients to close, and refuses none of their requests', async () => {
      const [active, idle] = await Promise.all([openHttp2(listener(), host), openHttp2(listener(), host)])
      const statusOn = async (session: ClientHttp2Session) => {
        const stream = session.request({ ':path': '/rest/films' })
        const [headers] = await once(stream.resume(), 'response')
        return headers[':status']
      }
      expect(await statusOn(active)).toBe(200)
      expect(await statusOn(idle)).toBe(200)
      const goaways = [active, idle].map(session => once(session, 'goaway'))
      const ended = plane.endHttps()
      await until('the listener is closed', async () => {
        const socket = connectTcp({ host: haproxy.host, port: haproxy.httpsPort })
        const isOpen = await once(socket, 'connect').then(
          () => true,
          () => false,
        )
        socket.destroy()
        return !isOpen
      })
      expect(await statusOn(active)).toBe(200)
      for (const [code] of await Promise.all(goaways)) expect(code).toBe(0)
      await ended
      expect([active.destroyed || active.closed, idle.destroyed || idle.closed]).toEqual([true, true])
    }, 30_000)

    test('a body that arrives a byte at a time is refused with 408', async () => {
      await restart({ bodies: { bodyIntervalMs: 2_000 } })
      const socket = await dialTls(listener(), host)
      let received = ''
      socket.on('data', bytes => (received += bytes))
      const head = ['POST /rest/films HTTP/1.1', `Host: ${host}`, 'Transfer-Encoding: chunked']
      socket.write(`${head.join('\r\n')}\r\n\r\n5000\r\n${'x'.repeat(0x5000)}\r\n`)
      const trickle = setInterval(() => socket.write('1\r\nx\r\n'), 300)
      onTestFinished(() => {
        clearInterval(trickle)
        socket.destroy()
      })
      await until('the client receives the whole response', () => received.includes('}'), 20_000)
      expect(received).toMatch(/^HTTP\/1.1 408 /)
      expect(received).toContain(JSON.stringify({ code: 408, message: 'the body of the request arrived too slowly' }))
      expect(service.wholes()).toBe(0)
    }, 30_000)

    test('concurrent requests are limited, so that open files remain for Postgres', async () => {
      await restart({ maxConnections: 100 })
      const addresses = Array.from({ length: 8 }, (_, index) => `127.0.1.${index + 1}`)
      const sessions = await Promise.all(addresses.map(address => openHttp2(listener(), host, address)))
      onTestFinished(() => {
        for (const session of sessions) session.destroy()
      })
      const answers: Promise<unknown[]>[] = []
      for (const session of sessions)
        for (let attempt = 0; attempt < 40; attempt++)
          answers.push(
            once(
              session.request({ ':path': '/rest/silent' }).on('error', () => {}),
              'response',
            ),
          )
      const [headers] = await Promise.race(answers)
      expect(headers).toMatchObject({ ':status': 503, 'retry-after': '1' })
      const stat = async () => (await haproxy.runCommand('show stat')).split('\n').map(line => line.split(','))
      const open = async () =>
        (await stat()).find(([proxy, part]) => proxy === 'services-rest' && part === 'BACKEND')?.[4]
      // Each address tries to open 40 requests. Once 75 requests are open, HAProxy accepts at most 16 per address, and
      // at most 100 in total.
      await until('100 requests are open', async () => Number(await open()) === 100)
      await new Promise(resolve => setTimeout(resolve, 300))
      expect(Number(await open())).toBe(100)
    })

    test('after drain, each response makes the client reconnect to another replica', async () => {
      expect((await request()).headers.connection).not.toBe('close')
      plane.drain()
      await plane.applied()
      expect((await request()).headers.connection).toBe('close')
      expect((await request('/nowhere')).headers.connection).toBe('close')
    })
  })
}
