/**
 * Measures on the kind cluster after `make e2e PROVIDER=kind`: the duration of a creation and of an allowlist change,
 * the gateway's cost, and the requests and memory of an idle installation. `make bench` does not run it, because it
 * needs that cluster.
 *
 *     NODE_EXTRA_CA_CERTS=.kind/ca.crt node bench/kubernetes.ts
 */
import { childNames } from '../crds/index.ts'
import { openTo } from '../e2e/client.ts'
import { testNamespace } from '../e2e/kind/addons.ts'
import { startKind } from '../e2e/providers/kind.ts'
import { measureRest } from './kubernetes-rest.ts'
import { against, median, percentile, print } from './statistics.ts'

const rounds = 10
const seconds = 10
const provider = await startKind()
const { kubectl } = provider
const api = await provider.client('bench')
const namespace = provider.namespace('bench')

async function timed<T>(work: () => Promise<T>): Promise<[number, T]> {
  const start = performance.now()
  const result = await work()
  return [performance.now() - start, result]
}

async function measureCreate(): Promise<void> {
  const took: number[] = []
  for (let round = 0; round < rounds; round++) {
    const [ms, { body }] = await timed(() => api.create({ name: `create${round}`, pg_version: '17' }))
    if (body.status !== 'available') throw new Error(`not available: ${JSON.stringify(body)}`)
    took.push(ms)
    await api.remove(body.id)
  }
  print(
    'create: from the request to available',
    `median ${median(took).toFixed(0)} ms, p95 ${percentile(took, 0.95).toFixed(0)} ms of ${rounds}`,
  )
}

async function measureAllowlist(id: string): Promise<void> {
  const took: number[] = []
  for (let round = 0; round < 2 * rounds; round++) {
    const rules = { rules: [{ cidr: `198.51.100.${round}` }] }
    took.push((await timed(() => api.change(id, { ip_allowlist: rules })))[0])
  }
  const p95 = percentile(took, 0.95)
  print(
    'allowlist change: from the request until it is applied',
    `median ${median(took).toFixed(0)} ms, p95 ${against(p95, 1000, 'at most', ' ms')}`,
  )
}

/** Runs pgbench inside the cluster, so that only the gateway differs between the two paths to the pod. */
async function measureGateway(id: string): Promise<void> {
  const client = await provider.clientPod(`bench-${Date.now().toString(36)}`)
  try {
    await api.change(id, { ip_allowlist: openTo(client.address) })
    const { username, password, port, database } = await api.connection(id)
    const pod = await provider.cluster.get('Pod', { namespace, name: childNames.pod(id, 1) })
    const ways = {
      direct: `host=${pod?.status?.podIP} port=5432`,
      gateway: `host=${provider.nodeAddress} port=${port}`,
    }
    const pgbench = (way: string, ...args: string[]) => {
      const script = 'read -r PGPASSWORD; export PGPASSWORD; exec pgbench "$@"'
      const connection = `${way} dbname=${database} user=${username} sslmode=require`
      return kubectl(
        ['exec', '-i', '-n', testNamespace, client.name, '--', 'sh', '-c', script, 'sh', ...args, connection],
        `${password}\n`,
      )
    }
    await pgbench(ways.direct, '--initialize', '--quiet', '--scale=10')
    const figure = (text: string, name: string) => Number(new RegExp(`${name} = ([0-9.]+)`).exec(text)?.[1])
    const results: Record<keyof typeof ways, { tps: number[]; connect: number[] }> = {
      direct: { tps: [], connect: [] },
      gateway: { tps: [], connect: [] },
    }
    for (let round = 0; round < 3; round++) {
      for (const way of ['direct', 'gateway'] as const) {
        const load = ['--select-only', '--client=16', '--jobs=2', `--time=${seconds}`, '--no-vacuum']
        results[way].tps.push(figure(await pgbench(ways[way], ...load), 'tps'))
        const each = ['--select-only', '--client=1', '--connect', '--time=3', '--no-vacuum']
        results[way].connect.push(figure(await pgbench(ways[way], ...each), 'average connection time'))
      }
    }
    const ratio = median(results.gateway.tps) / median(results.direct.tps)
    const tps = `${median(results.gateway.tps).toFixed(0)} against ${median(results.direct.tps).toFixed(0)}`
    print('pgbench select-only, 16 clients', `${tps} transactions/s: ${against(ratio, 0.85, 'at least')}`)
    const connect = `${median(results.gateway.connect).toFixed(1)} ms against ${median(results.direct.connect).toFixed(1)} ms`
    print('time to connect', connect)
  } finally {
    await client.remove()
  }
}

try {
  await measureCreate()
  const { body } = await api.create({ name: 'measured', size: 'wide', pg_version: '17' })
  try {
    await measureAllowlist(body.id)
    await measureGateway(body.id)
    await measureRest(provider)
  } finally {
    await api.remove(body.id)
  }
} finally {
  await provider.stop()
}
