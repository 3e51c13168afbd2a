/**
 * Measures an idle installation with 100 and 1,000 databases on the kind cluster after `make e2e PROVIDER=kind`. The
 * databases are suspended and have no pods, because one node cannot run so many. First, the benchmark gives the gateway
 * enough ports; at the end, it restores the ports of the tests.
 *
 *     NODE_EXTRA_CA_CERTS=.kind/ca.crt node bench/kubernetes-scale.ts
 */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { stringify } from 'yaml'
import { apiVersion, systemNamespace } from '../crds/index.ts'
import { readCluster } from '../e2e/kind/cluster.ts'
import { readSettings, root } from '../e2e/kind/settings.ts'
import { startKind } from '../e2e/providers/kind.ts'
import { measureRest } from './kubernetes-rest.ts'
import { print } from './statistics.ts'

const counts = [100, 1_000]
const settings = readSettings(process.env)
const { programs, kubeconfig } = await readCluster(settings)
const provider = await startKind()
const namespace = provider.namespace('scale')
const api = await provider.client('scale')

async function upgrade(...values: string[]): Promise<void> {
  const chart = ['upgrade', 'espalier', join(root, 'charts/espalier'), '--namespace', systemNamespace]
  const files = ['--values', join(root, 'e2e/kind/values.yaml'), '--values', join(settings.home, 'values.yaml')]
  await promisify(execFile)(programs.helm, [
    '--kubeconfig',
    kubeconfig,
    ...chart,
    ...files,
    ...values,
    '--timeout',
    '5m',
  ])
  for (const name of ['operator', 'api', 'gateway']) {
    await provider.kubectl([
      'rollout',
      'status',
      `deployment/espalier-${name}`,
      '-n',
      systemNamespace,
      '--timeout=300s',
    ])
  }
}

const manifest = (index: number): string =>
  stringify({
    apiVersion,
    kind: 'ManagedDatabase',
    metadata: { name: `scale${index}`, namespace },
    spec: { region: 'local', size: { name: 'nano', version: 1 }, pgVersion: '17', suspended: true },
  })

async function untilStable(count: number): Promise<void> {
  for (;;) {
    const databases = await provider.cluster.list('ManagedDatabase', { namespace })
    if (databases.items.filter(each => each.status?.phase === 'suspended').length >= count) return
    await sleep(1_000)
  }
}

try {
  await upgrade('--set', 'gateway.service.type=LoadBalancer,gateway.ports.first=20000,gateway.ports.last=21199')
  // A tenant's first write creates its namespace.
  const { body } = await api.create({ name: 'first' })
  await api.remove(body.id)
  let created = 0
  for (const count of counts) {
    const start = performance.now()
    while (created < count) {
      const next = Math.min(created + 100, count)
      const texts = Array.from({ length: next - created }, (_, index) => manifest(created + index))
      await provider.kubectl(['create', '-f', '-'], texts.join('---\n'))
      created = next
    }
    await untilStable(count)
    print(`${count} databases, suspended`, `reached after ${((performance.now() - start) / 1_000).toFixed(0)} s`)
    await sleep(30_000)
    await measureRest(provider)
  }
} finally {
  await provider.kubectl(['delete', 'mdb', '--all', '-n', namespace, '--timeout=900s'])
  await upgrade()
  await provider.stop()
}
