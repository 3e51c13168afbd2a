/**
 * A node is drained while each service has one pod on each of two nodes. This test needs a cluster with two nodes:
 * `ESPALIER_KIND_WORKERS=1 make kind-up`.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { labels } from '../../crds/index.ts'
import { type ApiClient, eventually } from '../client.ts'
import type { Fetch } from '../https-fetch.ts'
import { type KindProvider, startKind } from '../providers/kind.ts'
import { createServed, fetchingFrom, stopAll } from '../service-load.ts'
import { clientsOf, loadAll } from './service-clients.ts'
import { minutes } from './serving.ts'

const tenant = 'drained'
let provider: KindProvider
let api: ApiClient
let fetching: Fetch
let worker: string | undefined
beforeAll(async () => {
  provider = await startKind()
  api = await provider.client(tenant)
  fetching = await fetchingFrom(provider)
  const { items } = await provider.cluster.list('Node')
  worker = items.map(({ metadata }) => metadata.name).find(name => name !== provider.nodeName)
})
afterAll(() => provider?.stop())

/** The nodes with ready pods of each service, as `rest: one, two`. */
async function podNodesOf(id: string): Promise<string[]> {
  const { items } = await provider.cluster.list('Pod', {
    namespace: provider.namespace(tenant),
    labels: { [labels.database]: id, [labels.service]: true },
  })
  const ready = items.filter(
    ({ metadata, status }) =>
      metadata.deletionTimestamp === undefined &&
      status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True'),
  )
  const types = [...new Set(ready.map(({ metadata }) => metadata.labels?.[labels.service] ?? ''))].toSorted()
  return types.map(type => {
    const own = ready.filter(({ metadata }) => metadata.labels?.[labels.service] === type)
    return `${type}: ${own
      .map(({ spec }) => spec?.nodeName)
      .toSorted()
      .join(', ')}`
  })
}
const onBoth = (nodes: readonly string[]) =>
  ['mcp', 'rag', 'rest'].map(type => `${type}: ${nodes.toSorted().join(', ')}`)

test(
  'no request fails while a node with a pod of each service is drained',
  async ({ skip }) => {
    if (worker === undefined) return skip('the cluster has one node')
    const node = worker
    const database = await createServed(api, 'spread', provider.clientAddress)
    const { id } = database
    onTestFinished(async () => void (await api.remove(id)))
    await eventually(
      'each service has a pod on each node',
      async () => {
        const podNodes = await podNodesOf(id)
        if (podNodes.join() !== onBoth([node, provider.nodeName]).join()) throw new Error(podNodes.join('; '))
        return true
      },
      minutes(3),
    )
    const clients = await clientsOf(database, fetching)
    onTestFinished(() => clients.close())
    // A session of mcp ends with its pod. Then the client begins another session.
    const loads = loadAll(clients, { mayEnd: true })
    await sleep(2_000)
    onTestFinished(async () => void (await provider.kubectl(['uncordon', node])))
    // Evicts all pods except Postgres, which may be on this node and has no second pod.
    const flags = ['--ignore-daemonsets', '--delete-emptydir-data', `--pod-selector=${labels.component}!=postgres`]
    await provider.kubectl(['drain', node, ...flags, '--timeout=240s'])
    await eventually(
      'each service has two pods on the other node',
      async () => (await podNodesOf(id)).join() === onBoth([provider.nodeName, provider.nodeName]).join(),
      minutes(3),
    )
    await sleep(3_000)
    expect((await stopAll(loads)).slice(0, 20)).toEqual([])
    for (const { accepted, count } of loads) {
      expect(accepted()).toBeLessThanOrEqual(1)
      expect(count()).toBeGreaterThan(20)
    }
  },
  minutes(12),
)
