/**
 * Measures HTTPS with a real HAProxy, and with the agent in this process:
 * - with 3,000 services of 1,000 databases and 5 rules each: the time from the write of a new database's route to its
 *   acknowledgement, the time to load everything after a restart of HAProxy, and the memory of HAProxy;
 * - a request through the gateway against a request to the service, both on open connections.
 */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Agent as HttpAgent, request as httpRequest } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest, type RequestOptions } from 'node:https'
import pino from 'pino'
import { startHaproxyGateway } from '../gateway/haproxy/index.ts'
import { testCertificate } from '../gateway/testing/certificate.ts'
import { openTestCluster } from '../gateway/testing/cluster.ts'
import { haproxyVersion, openHaproxy } from '../gateway/testing/haproxy.ts'
import { openService } from '../gateway/testing/http-services.ts'
import { until } from '../gateway/testing/sockets.ts'
import { acknowledged, type HttpRoute, serviceTypes } from '../routes/route.ts'
import { against, percentile, print } from './statistics.ts'

const databases = 1_000

function routeOf(index: number, port: number): HttpRoute {
  const rules = Array.from({ length: 4 }, (_, rule) => `${1 + (index % 200)}.${rule}.${index % 256}.0/24`)
  const target = { namespace: 'espalier-t-1', service: 'db-1-rest', port }
  const services = serviceTypes.map(service => ({ service, target, rules: [...rules, '127.0.0.0/8'] }))
  const databaseId = `9b2f7a6e-0000-4000-8000-${String(index).padStart(12, '0')}`
  return { kind: 'http', host: `db-${index}.db.test`, databaseId, label: `db-${index}`, services }
}

async function times(count: number, send: () => Promise<unknown>): Promise<number[]> {
  const all: number[] = []
  for (let index = 0; index < count; index++) {
    const began = performance.now()
    await send()
    all.push(performance.now() - began)
  }
  return all
}

async function main(): Promise<void> {
  if (haproxyVersion === undefined) {
    console.log('HAProxy is not on this machine: nothing is measured')
    return
  }
  const cluster = await openTestCluster()
  const haproxy = await openHaproxy()
  const service = await openService('rest')
  const first = routeOf(0, service.port)
  const target = first.services[0]?.target
  if (target !== undefined) await cluster.putService(target, service.host)
  const gateway = await startHaproxyGateway({
    ...{ cluster: cluster.faulty, identity: 'bench', paths: haproxy.paths, ports: haproxy.ports, https: true },
    ...{ certificate: testCertificate('gateway.test'), logger: pino({ level: 'error' }) },
  })
  const change = async (route: HttpRoute): Promise<number> => {
    const began = performance.now()
    const version = await cluster.putRoute(route)
    while (!acknowledged(version, await cluster.leases(), Date.now()).done)
      await new Promise(resolve => setTimeout(resolve, 1))
    return performance.now() - began
  }
  print('HAProxy', haproxyVersion)
  for (let index = 0; index < databases; index++) await cluster.putRoute(routeOf(index, service.port))
  await change(first)
  const added: number[] = []
  for (let index = 0; index < 50; index++) added.push(await change(routeOf(databases + index, service.port)))
  print('one more database, p50', `${percentile(added, 0.5).toFixed(1)} ms`)
  print('  p95', against(percentile(added, 0.95), 100, 'at most', ' ms'))
  const resident = /VmRSS:\s+([0-9]+)/.exec(readFileSync(`/proc/${haproxy.pid()}/status`, 'utf8'))?.[1]
  print('  memory of HAProxy', `${resident} kB`)

  const direct = new HttpAgent({ keepAlive: true })
  const secure = new HttpsAgent({ keepAlive: true, rejectUnauthorized: false })
  const send = async (make: typeof httpRequest | typeof httpsRequest, options: RequestOptions) => {
    const sent = make(options)
    sent.end()
    const [response] = await once(sent, 'response')
    for await (const _ of response);
    if (response.statusCode !== 200) throw new Error(`status ${response.statusCode}`)
  }
  const straight = () => send(httpRequest, { host: service.host, port: service.port, path: '/x', agent: direct })
  const through = () =>
    send(httpsRequest, {
      ...{ host: haproxy.host, port: haproxy.httpsPort, path: '/rest/x', agent: secure },
      ...{ servername: first.host, headers: { host: first.host } },
    })
  await times(200, straight)
  await times(200, through)
  const [without, within] = [await times(2_000, straight), await times(2_000, through)]
  for (const [name, share] of [
    ['p50', 0.5],
    ['p99', 0.99],
  ] as const)
    print(
      `a request, ${name}`,
      `${percentile(within, share).toFixed(2)} ms against ${percentile(without, share).toFixed(2)} ms direct`,
    )
  direct.destroy()
  secure.destroy()

  await haproxy.kill('SIGKILL')
  await haproxy.start()
  const began = performance.now()
  await until('HAProxy has received its deadline', async () =>
    (await haproxy.runCommand(`get map ${haproxy.paths.state} deadline`)).includes('found=yes'),
  )
  print('HAProxy restarted, until it has all routes', `${(performance.now() - began).toFixed(0)} ms`)
  await gateway.stop({ settleMs: 0 })
  await haproxy.close()
  await service.close()
  await cluster.close()
}

if (import.meta.main) await main()
