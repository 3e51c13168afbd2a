/**
 * Opens 10,000 silent connections from 20 addresses to HAProxy's HTTPS listener. Meanwhile, measures the duration of a
 * request from another address, and HAProxy's memory. HAProxy closes connections below the limit after its timeout for
 * headers. Connections above the limit wait until HAProxy accepts them.
 */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import pino from 'pino'
import { createHaproxyPlane } from '../gateway/haproxy/data-plane.ts'
import { buildHosts } from '../gateway/http/table.ts'
import { haproxyVersion, openHaproxy } from '../gateway/testing/haproxy.ts'
import { sendRequest } from '../gateway/testing/http-client.ts'
import { openService } from '../gateway/testing/http-services.ts'
import { httpRouteName, routeKey } from '../routes/route.ts'
import { percentile, print } from './statistics.ts'

const host = 'shop.db.test'
const silent = 10_000
const addresses = 20
/** The limit of file descriptors for one process of this benchmark. */
const limit = 8_700

async function main(): Promise<void> {
  if (haproxyVersion === undefined) {
    console.log('HAProxy is not on this machine: nothing is measured')
    return
  }
  const haproxy = await openHaproxy({ maxConnections: 1_000, https: { maxConnections: limit } })
  const service = await openService('rest')
  const plane = createHaproxyPlane({
    ...{ paths: haproxy.paths, ports: haproxy.ports, resolvable: () => true, https: true },
    addressOf: () => `${service.host}:${service.port}`,
    ...{ onRecovered: () => {}, logger: pino({ level: 'silent' }) },
  })
  plane.admitUntil(Date.now() + 3600_000)
  const target = { namespace: 'n', service: 'rest', port: 1000 }
  const services = [{ service: 'rest', target, rules: ['0.0.0.0/0'] }]
  const route = { kind: 'http', host, databaseId: 'one', label: 'shop', services }
  const metadata = { name: httpRouteName(host) }
  const data = { [routeKey]: JSON.stringify(route) }
  plane.put(new Map(), buildHosts([{ apiVersion: 'v1', kind: 'ConfigMap', metadata, data }]).table)
  await plane.applied()

  const memory = () => /VmRSS:\s+([0-9]+)/.exec(readFileSync(`/proc/${haproxy.pid()}/status`, 'utf8'))?.[1] ?? ''
  const listener = { host: haproxy.host, port: haproxy.httpsPort }
  const times: number[] = []
  let failed = 0
  const request = async () => {
    const began = performance.now()
    const status = await sendRequest(listener, { name: host, path: '/rest/x', from: '127.0.9.9' }).then(
      answer => answer.status,
      () => 0,
    )
    times.push(performance.now() - began)
    if (status !== 200) failed++
  }
  const report = (what: string) => {
    const [p50, most] = [percentile(times, 0.5), Math.max(...times)].map(ms => ms.toFixed(0))
    print(
      what,
      `${times.length} requests of new connections, ${failed} failed, p50 ${p50} ms, longest ${most} ms; ${memory()} kB`,
    )
    times.length = 0
  }
  for (let turn = 0; turn < 20; turn++) await request()
  report('before the silent connections')
  let closed = 0
  for (let index = 0; index < silent; index++) {
    const socket = connect({ ...listener, localAddress: `127.0.8.${1 + (index % addresses)}` })
    socket.on('error', () => {}).on('close', () => closed++)
    if (index % 500 !== 0) continue
    await Promise.race([once(socket, 'connect').catch(() => {}), sleep(500)])
    await request()
  }
  report(`while ${silent} connections are opened`)
  print('  silent connections closed so far', String(closed))
  for (let turn = 0; turn < 30; turn++) {
    await request()
    await sleep(500)
  }
  report('in the 15 s afterwards')
  print('  silent connections closed so far', String(closed))
  await plane.stop()
  await haproxy.close()
  await service.close()
  process.exit()
}

if (import.meta.main) await main()
