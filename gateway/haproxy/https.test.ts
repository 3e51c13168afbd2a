/** HTTPS of HAProxy: the tests of every data plane, and what is HAProxy's alone. */
import { once } from 'node:events'
import { connect } from 'node:tls'
import pino from 'pino'
import { beforeEach, describe, expect, test } from 'vitest'
import { httpRouteName, routeKey } from '../../routes/route.ts'
import type { Certificate } from '../../server/certificate.ts'
import { buildHosts, type HostTable } from '../http/table.ts'
import { testCertificate } from '../testing/certificate.ts'
import { haproxyVersion, openHaproxy, type TestHaproxy } from '../testing/haproxy.ts'
import { ask, open } from '../testing/http-client.ts'
import { describeHttpPlane, nameWithoutRoute, type OpenHttpPlane } from '../testing/http-plane.ts'
import { openService, type TestService } from '../testing/http-services.ts'
import { until } from '../testing/sockets.ts'
import { createHaproxyPlane } from './data-plane.ts'

const openPlane: OpenHttpPlane = async addressOf => {
  const haproxy = await openHaproxy()
  const plane = createHaproxyPlane({
    ...{ paths: haproxy.paths, ports: haproxy.ports, addressOf, resolvable: () => true, https: true },
    ...{ onRecovered: () => {}, logger: pino({ level: 'silent' }) },
  })
  plane.admitUntil(Date.now() + 3600_000)
  return {
    ...{ host: haproxy.host, port: haproxy.httpsPort, ca: haproxy.certificate.ca },
    // Any name without a route will do: which names a region's gateway has, the agent is not told.
    ownNames: new Set([nameWithoutRoute]),
    put: async hosts => {
      plane.put(new Map(), hosts)
      await plane.inForce()
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

/** The subject of the certificate that a client of this name is shown. */
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
    beforeEach(async () => {
      haproxy = await openHaproxy()
      service = await openService('rest')
      plane = createHaproxyPlane({
        ...{ paths: haproxy.paths, ports: haproxy.ports, resolvable: () => true, https: true },
        addressOf: () => `${service.host}:${service.port}`,
        ...{ onRecovered: () => {}, logger: pino({ level: 'silent' }) },
      })
      plane.admitUntil(Date.now() + 3600_000)
      plane.put(new Map(), hostsWith(['rest']))
      await plane.inForce()
      return async () => {
        await plane.stop()
        await haproxy.close()
        await service.close()
      }
    })
    const listener = () => ({ host: haproxy.host, port: haproxy.httpsPort })
    const request = (path = '/rest/films') =>
      ask(listener(), { name: host, path, headers: { connection: 'keep-alive' } })
    const showing = (name: string, expected: string) =>
      until(`${name} is shown ${expected}`, async () => (await shownTo(haproxy, name)) === expected)

    test('certificates are added, renewed and deleted without cutting a stream, and are back after a restart', async () => {
      const one = testCertificate('*.one.test')
      const two = testCertificate('*.two.test')
      expect(await shownTo(haproxy, 'a.two.test')).toBe('espalier.invalid')
      const stream = await open(listener(), { name: host, path: '/rest/events' })
      let heard = ''
      stream.setEncoding('utf8').on('data', (text: string) => (heard += text))

      plane.setCertificates(new Map([['one', one]]))
      await showing('a.one.test', '*.one.test')
      expect(await shownTo(haproxy, '')).toBe('*.one.test')
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
      expect(await haproxy.ask('show ssl cert')).not.toContain('region-two')

      service.send('still here')
      await until('the stream goes on', () => heard.includes('still here'))
      stream.destroy()
      await haproxy.kill('SIGKILL')
      await haproxy.start()
      await showing('a.one.test', '*.one.test')
    })

    test('a certificate that HAProxy refuses keeps neither rules nor other certificates from it', async () => {
      const two = testCertificate('*.two.test')
      plane.setCertificates(
        new Map<string, Certificate>([
          ['zero', { ...testCertificate('*.zero.test'), cert: 'no PEM' }],
          ['two', two],
        ]),
      )
      await showing('a.two.test', '*.two.test')
      plane.put(new Map(), hostsWith([]))
      await plane.inForce()
      expect(await request()).toMatchObject({ status: 404 })
      plane.setCertificates(new Map<string, Certificate>([['zero', testCertificate('*.zero.test')]]))
      await showing('a.zero.test', '*.zero.test')
    })

    test('an agent that starts anew keeps what HAProxy has, and what it no longer wants is deleted', async () => {
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
      await until('the old one is deleted', async () => !(await haproxy.ask('show ssl cert')).includes('region-old'))
      expect(await request()).toMatchObject({ status: 200 })
    })

    test('a HAProxy that was started anew refuses until it has every route', async () => {
      await haproxy.kill('SIGKILL')
      await haproxy.start()
      await until('it has them again', async () => (await request()).status === 200)
    })

    test('after the deadline it answers that it is out of touch', async () => {
      plane.admitUntil(0)
      await plane.inForce()
      const { status, headers, body } = await request()
      expect([status, headers['retry-after'], JSON.parse(body).code]).toEqual([503, '5', 503])
    })

    test('a replica that is about to stop sends clients elsewhere with their next answer', async () => {
      expect((await request()).headers.connection).not.toBe('close')
      plane.drain()
      await plane.inForce()
      expect((await request()).headers.connection).toBe('close')
      expect((await request('/nowhere')).headers.connection).toBe('close')
    })
  })
}
