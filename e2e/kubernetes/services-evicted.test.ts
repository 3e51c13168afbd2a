/** Two replicas of each service: their pods are evicted one after another, as in a drain, and no request fails. */
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { labels, systemNamespace } from '../../crds/index.ts'
import { type ApiClient, eventually } from '../client.ts'
import type { Fetch } from '../https-fetch.ts'
import { type KindProvider, startKind } from '../providers/kind.ts'
import { createServed, fetchingFrom, load, requestsTo, stopAll } from '../service-load.ts'
import { minutes } from './serving.ts'

let provider: KindProvider
let api: ApiClient
let fetching: Fetch
beforeAll(async () => {
  provider = await startKind()
  api = await provider.client('evicted')
  fetching = await fetchingFrom(provider)
})
afterAll(() => provider?.stop())

const configuration = { namespace: systemNamespace, name: 'espalier-operator-configuration' }

async function configureOperator(data: Record<string, string>): Promise<void> {
  const patch = JSON.stringify({ data })
  const { namespace, name } = configuration
  await provider.kubectl(['patch', 'configmap', name, '-n', namespace, '--type=merge', '-p', patch])
  const operator = ['deployment/espalier-operator', '-n', namespace]
  await provider.kubectl(['rollout', 'restart', ...operator])
  await provider.kubectl(['rollout', 'status', ...operator, '--timeout=120s'])
}

/**
 * Has the effect of the chart's value `services.replicas`. `auto` would result in one replica, because the cluster has
 * one node.
 */
async function useTwoReplicas(): Promise<void> {
  const { data = {} } = (await provider.cluster.get('ConfigMap', configuration)) ?? {}
  const changed = data['operator.yaml']?.replaceAll(/^( +(?:mcp|rest|rag)): auto$/gm, '$1: 2')
  if (changed === undefined || changed === data['operator.yaml']) throw new Error('the chart names no replicas')
  onTestFinished(() => configureOperator(data))
  await configureOperator({ 'operator.yaml': changed })
}

test(
  'pods of services are evicted, and no request fails',
  async () => {
    await useTwoReplicas()
    const database = await createServed(api, 'spread', provider.clientAddress)
    const namespace = provider.namespace('evicted')
    const pods = async () => {
      const selector = { namespace, labels: { [labels.database]: database.id, [labels.service]: true as const } }
      const { items } = await provider.cluster.list('Pod', selector)
      return items.filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    }
    const isReady = (pod: Awaited<ReturnType<typeof pods>>[number]) =>
      pod.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true
    const twoOfEach = () =>
      eventually(
        'each service has two ready pods',
        async () => (await pods()).filter(isReady).length === 6 && (await pods()),
        minutes(2),
      )
    const evict = async (name: string) => {
      const eviction = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name, namespace } }
      const path = `/api/v1/namespaces/${namespace}/pods/${name}/eviction`
      await provider.kubectl(['create', '--raw', path, '-f', '-'], JSON.stringify(eviction))
    }
    const evicted = await twoOfEach()
    const loads = Object.entries(requestsTo(database, fetching)).map(([name, one]) => load(name, one))
    for (const { metadata } of evicted) {
      // A disruption budget refuses the eviction until the replacement of the previous pod is ready.
      await eventually('the API server accepts the eviction', () => evict(metadata.name).then(() => true), minutes(2))
      expect(loads.flatMap(({ failures }) => failures)).toEqual([])
    }
    const names = new Set(evicted.map(({ metadata }) => metadata.name))
    expect((await twoOfEach()).some(({ metadata }) => names.has(metadata.name))).toBe(false)
    expect(await stopAll(loads)).toEqual([])
    for (const { count } of loads) expect(count()).toBeGreaterThan(50)
    await api.remove(database.id)
  },
  minutes(8),
)
