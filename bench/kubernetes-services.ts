/**
 * Measures services on the kind cluster after `make e2e PROVIDER=kind`: the duration of a change and of a branch, the
 * memory of idle pods, and the gateway's cost. `make bench` does not run it, because it needs that cluster.
 *
 *     NODE_EXTRA_CA_CERTS=.kind/ca.crt node bench/kubernetes-services.ts [patch branch memory gateway]
 */
import { readFile } from 'node:fs/promises'
import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { stringify } from 'yaml'
import { labels } from '../crds/index.ts'
import { connect, eventually, openTo } from '../e2e/client.ts'
import { testNamespace } from '../e2e/kind/addons.ts'
import { readCluster } from '../e2e/kind/cluster.ts'
import { readSettings } from '../e2e/kind/settings.ts'
import { connectionOf } from '../e2e/kubernetes/requests.ts'
import { startKind } from '../e2e/providers/kind.ts'
import {
  createServed,
  fetchingFrom,
  mcp,
  rag,
  readServed,
  requestsTo,
  rest,
  type Served,
  serviceOf,
  untilRunning,
} from '../e2e/service-load.ts'
import { testCertificate } from '../gateway/testing/certificate.ts'
import { servicePorts } from '../operator/service/configuration/ports.ts'
import { against, median, percentile, print } from './statistics.ts'

const changes = 24
const branches = 5
const requests = 2_000
const tenant = 'benchservices'

const provider = await startKind()
const { kubectl, cluster } = provider
const api = await provider.client(tenant)
const fetching = await fetchingFrom(provider)
const namespace = provider.namespace(tenant)
const { ports } = await readCluster(readSettings(process.env))

const machine = () => `load ${loadavg()[0]?.toFixed(1)}`
const seconds = (ms: number) => `${(ms / 1000).toFixed(2)} s`

/**
 * Measures a change from the request until the API reports all services as running. The next change starts after the
 * replaced workload is deleted.
 */
async function measureChanges({ id }: Served): Promise<void> {
  const took: number[] = []
  for (let round = 0; round < changes; round++) {
    const began = performance.now()
    const { status, body } = await api.change(id, { services: [mcp, rest(5 + round), rag] })
    if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`)
    await untilRunning(api, id)
    const ms = performance.now() - began
    took.push(ms)
    console.error(`change ${round + 1}: ${seconds(ms)}, ${machine()}`)
    await sleep(12_000)
  }
  const p95 = percentile(took, 0.95)
  const figures = `p50 ${seconds(median(took))}, p95 ${against(p95 / 1000, 5, 'at most', ' s')}, most ${seconds(percentile(took, 1))}`
  print('change of a service: from the request to running', `${figures} of ${changes}, ${machine()}`)
}

/** Sends requests until one succeeds. @returns the ms since `began` */
async function firstAnswer(send: () => Promise<unknown>, began: number): Promise<number> {
  for (;;) {
    if (
      await send().then(
        () => true,
        () => false,
      )
    )
      return performance.now() - began
    if (performance.now() - began > 120_000) return Number.NaN
    await sleep(25)
  }
}

async function measureBranches({ id }: Served): Promise<void> {
  const took: Record<string, number[]> = { postgres: [], mcp: [], rest: [], rag: [] }
  for (let round = 0; round < branches; round++) {
    const began = performance.now()
    const { body } = await api.call<Served>('POST', `/databases/${id}/branches`, {})
    const path = `/databases/${id}/branches/${body.id}`
    const branch = await eventually('every service of the branch has an address', async () => {
      const read = await readServed(api, path)
      return read.services?.every(({ uri }) => uri !== null && uri !== undefined) ? read : undefined
    })
    const send = requestsTo(branch, fetching)
    const postgres = async () => {
      const session = await connect(await connectionOf(api, id, branch.id))
      await session.query('SELECT count(*) FROM fruit').finally(() => session.end())
    }
    const all = { postgres, mcp: send.mcp, rest: send.rest, rag: send.rag }
    const answers = Object.entries(all).map(async ([name, one]) => took[name]?.push(await firstAnswer(one, began)))
    await Promise.all(answers)
    await api.call('DELETE', path, undefined, { prefer: 'wait=60' })
  }
  for (const [name, times] of Object.entries(took))
    print(`first answer of a branch: ${name}`, `${times.map(seconds).join(', ')}, ${machine()}`)
}

async function podsOf({ id }: Served) {
  const { items } = await cluster.list('Pod', { namespace, labels: { [labels.database]: id, [labels.service]: true } })
  const isReady = ({ metadata, status }: (typeof items)[number]) =>
    metadata.deletionTimestamp === undefined &&
    status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True')
  return items.filter(isReady)
}

/** Measures the memory of the processes in each container, and how much of it is not files. */
async function measureMemory(served: Served): Promise<void> {
  await sleep(30_000)
  const script =
    'resident=0; own=0; for f in /proc/[0-9]*/status; do [ "$f" = "/proc/$$/status" ] || while read -r k v _; do case "$k" in ' +
    'VmRSS:) resident=$((resident+v));; RssAnon:) own=$((own+v));; esac; done < "$f"; done; echo "$resident"; echo "$own"'
  for (const pod of await podsOf(served)) {
    for (const { name } of pod.spec?.containers ?? []) {
      const args = ['exec', '-n', namespace, pod.metadata.name, '-c', name, '--', 'sh', '-c', script]
      const [resident = 0, anonymous = 0] = (await kubectl(args)).split('\n').map(Number)
      const text = `${(resident / 1024).toFixed(0)} MiB resident, ${(anonymous / 1024).toFixed(0)} MiB of them its own`
      print(`memory of ${pod.metadata.labels?.[labels.service]}/${name} at rest`, text)
    }
  }
}

/** `own` is the path at the server itself, without the prefix that the gateway removes. */
type Request = {
  method: string
  path: string
  own?: string
  headers: Record<string, string>
  body?: string
  rounds: number
}
type Times = { first: number[]; last: number[] }

/** Starts a client in a pod. From the host, only one of the two paths would pass the container engine's proxy. */
async function startClient(name: string): Promise<{ address: string; remove(): Promise<void> }> {
  const container = { name: 'client', image: 'localhost/espalier:dev', command: ['sleep', '3600'] }
  const metadata = { name, namespace: testNamespace }
  const pod = { apiVersion: 'v1', kind: 'Pod', metadata, spec: { containers: [container] } }
  const target = ['-n', testNamespace, name]
  await kubectl(['apply', '--filename', '-'], stringify(pod))
  await kubectl(['wait', '--for=condition=Ready', 'pod', ...target, '--timeout=60s'])
  return {
    address: await kubectl(['get', 'pod', ...target, '-o', 'jsonpath={.status.podIP}']),
    remove: async () => void (await kubectl(['delete', 'pod', ...target, '--grace-period=0', '--force'])),
  }
}

/** Starts a HAProxy that only terminates TLS: its cost is that of any proxy in front of a service. */
async function startProxy(name: string, to: { address: string; port: number }): Promise<void> {
  const { cert, key } = testCertificate('bare.test')
  const settings = [
    ...['global', '  nbthread 2', 'defaults', '  mode http', '  timeout connect 5s', '  timeout client 60s'],
    ...['  timeout server 60s', 'frontend all', '  bind :8443 ssl crt /tmp/bare.pem', '  default_backend all'],
    ...['backend all', `  server one ${to.address}:${to.port}`, ''],
  ]
  const exec = (command: string, input: string) =>
    kubectl(['exec', '-i', '-n', testNamespace, name, '--', 'sh', '-c', command], input)
  await exec('cat > /tmp/bare.pem', cert + key)
  await exec(
    'cat > /tmp/bare.cfg; haproxy -D -p /tmp/bare.pid -f /tmp/bare.cfg -sf $(cat /tmp/bare.pid)',
    settings.join('\n'),
  )
}

async function measureGateway(served: Served): Promise<void> {
  const name = `bench-${Date.now().toString(36)}`
  const client = await startClient(name)
  const proxy = await startClient(`${name}-bare`)
  try {
    const opened = { ip_allowlist: openTo(client.address) }
    await api.change(served.id, { services: [mcp, rest(5), rag].map(service => ({ ...service, ...opened })) })
    await untilRunning(api, served.id)
    // Replaced pods still serve for some seconds. The wait ensures that no request reaches them.
    await sleep(20_000)
    const program = await readFile(new URL('kubernetes-services-client.mjs', import.meta.url), 'utf8')
    const send = async (type: string, port: number, request: Request) => {
      const { uri } = serviceOf(served, type)
      const { hostname, pathname } = new URL(uri)
      const pod = (await podsOf(served)).find(({ metadata }) => metadata.labels?.[labels.service] === type)
      const { path, own = path, rounds, ...same } = request
      const host = `${hostname}:${ports.https}`
      const address = pod?.status?.podIP ?? ''
      await startProxy(`${name}-bare`, { address, port })
      const ways = {
        direct: { url: `http://${address}:${port}${own}`, host },
        bare: { url: `https://${proxy.address}:8443${own}`, servername: 'bare.test', host },
        gateway: {
          url: `https://${provider.nodeAddress}:${ports.https}${pathname}${path}`,
          servername: hostname,
          host,
        },
      }
      const args = ['exec', '-i', '-n', testNamespace, name, '--', 'node', '--input-type=module', '--eval', program]
      const text = await kubectl(args, JSON.stringify({ ways, warmUp: 200, rounds, ...same }))
      return JSON.parse(text) as { times: Record<keyof typeof ways, Times>; type: string }
    }
    const compare = (what: string, { times: { direct, bare, gateway } }: Awaited<ReturnType<typeof send>>) => {
      for (const [part, aim] of [
        [0.5, 1.2],
        [0.99, 1.5],
      ] as const) {
        const at = ({ last }: Times) => percentile(last, part)
        const ratio = at(gateway) / at(direct)
        const figures = `${at(gateway).toFixed(2)} ms, bare HAProxy ${at(bare).toFixed(2)} ms, direct ${at(direct).toFixed(2)} ms: ${against(ratio, aim, 'at most')}`
        print(`${what}, p${part * 100}`, `${figures}, ${machine()}`)
      }
    }
    const get = { method: 'GET', headers: {}, rounds: requests }
    compare('rest, 3 rows', await send('rest', servicePorts.rest.http, { ...get, path: '/fruit?select=id&limit=3' }))
    const bearer = { authorization: `Bearer ${serviceOf(served, 'rag').bearer_token}` }
    compare(
      'rag, its pipelines',
      await send('rag', servicePorts.rag.http, { ...get, headers: bearer, path: '/v1/pipelines' }),
    )
    const call = {
      ...{ method: 'POST', path: '/v1', own: '/mcp/v1', rounds: requests / 4 },
      headers: {
        ...{ authorization: `Bearer ${serviceOf(served, 'mcp').mcp_config?.init_tokens}` },
        ...{ 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      },
      body: JSON.stringify({
        ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
        params: { name: 'query_database', arguments: { query: 'SELECT 1' } },
      }),
    }
    const called = await send('mcp', servicePorts.mcp.tools, call)
    compare(`mcp, a tool (${called.type})`, called)
    const { direct, gateway } = called.times
    const more = median(gateway.first) - median(direct.first)
    print('mcp, first byte: time added by the gateway', `${against(more, 5, 'at most', ' ms')}, ${machine()}`)
  } finally {
    await client.remove()
    await proxy.remove()
  }
}

const wanted = process.argv.slice(2)
const measures = { patch: measureChanges, branch: measureBranches, memory: measureMemory, gateway: measureGateway }
try {
  const served = await createServed(api, 'benched', provider.clientAddress)
  try {
    for (const [name, measure] of Object.entries(measures))
      if (wanted.length === 0 || wanted.includes(name)) await measure(served)
  } finally {
    await api.remove(served.id)
  }
} finally {
  await provider.stop()
}
