/** Measures an idle installation on a cluster: requests to the API server, and memory. */
import { setTimeout as sleep } from 'node:timers/promises'
import { systemNamespace } from '../crds/index.ts'
import type { KindProvider } from '../e2e/providers/kind.ts'
import { print } from './statistics.ts'

/** Returns the sum of a metric over all its labels, from Prometheus's text format. */
function sum(metrics: string, name: string): number {
  const lines = metrics.split('\n').filter(line => new RegExp(`^${name}(\\{|\\s)`).test(line))
  return lines.reduce((total, line) => total + Number(line.slice(line.lastIndexOf(' '))), 0)
}

export async function measureRest({ kubectl, cluster }: KindProvider): Promise<void> {
  const requests = async () => sum(await kubectl(['get', '--raw', '/metrics']), 'apiserver_request_total')
  const before = await requests()
  await sleep(30_000)
  // Subtracts 1: the request that reads the metrics counts too.
  print(
    'API server at rest',
    `${(((await requests()) - before - 1) / 30).toFixed(1)} requests/s, including those of the cluster itself`,
  )
  for (const component of ['operator', 'api', 'gateway']) {
    const labels = { 'app.kubernetes.io/component': component }
    const { items } = await cluster.list('Pod', { namespace: systemNamespace, labels })
    const sizes = await Promise.all(items.map(({ metadata: { name } }) => residentMebibytes(kubectl, name, component)))
    print(`memory of ${component}`, sizes.map(size => `${size.toFixed(0)} MiB`).join(', '))
  }
}

/** Returns the memory of all processes in the container of the component. */
async function residentMebibytes(kubectl: KindProvider['kubectl'], pod: string, component: string): Promise<number> {
  const container = component === 'gateway' ? 'agent' : component
  const script =
    'total=0; for f in /proc/[0-9]*/status; do while read -r k v _; do [ "$k" = VmRSS: ] && total=$((total+v)); done < $f; done; echo $total'
  const text = await kubectl(['exec', '-n', systemNamespace, pod, '-c', container, '--', 'sh', '-c', script])
  return Number(text) / 1024
}
