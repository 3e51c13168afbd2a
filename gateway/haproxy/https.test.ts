/** HTTPS of HAProxy: the tests of every data plane, and what is HAProxy's alone. */
import pino from 'pino'
import { test } from 'vitest'
import { haproxyVersion, openHaproxy } from '../testing/haproxy.ts'
import { describeHttpPlane, nameWithoutRoute, type OpenHttpPlane } from '../testing/http-plane.ts'
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

if (haproxyVersion === undefined) test.skip('HTTPS with HAProxy: needs haproxy on this machine', () => {})
else describeHttpPlane(`HAProxy ${haproxyVersion}`, openPlane)
