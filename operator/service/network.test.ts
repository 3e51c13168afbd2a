/** Which clients reach which port of a service's pods. */
import { expect, test } from 'vitest'
import { serviceConfig } from '../../crds/services.ts'
import { systemPods } from '../endpoint/network-policy.ts'
import type { ServiceContainer } from './configuration/index.ts'
import { serviceDraft, servicePolicyDraft } from './network.ts'

const id = '01a2b3c4-0000-7000-8000-000000000001'
const owner = { kind: 'ManagedDatabase', namespace: 'espalier-t-1', name: 'shop', id, uid: 'u' } as never
const containerWith = (...ports: [name: string, port: number][]) =>
  ({ ports: ports.map(([name, port]) => ({ name, port })) }) as unknown as ServiceContainer
const rest = [containerWith(['http', 3000], ['admin', 3001], ['samples', 8433])]
const mcp = [
  containerWith(['tools', 8080], ['tools-samples', 8433]),
  containerWith(['bridge', 8090], ['bridge-samples', 8434]),
]
const prometheus = { namespaceSelector: { matchLabels: { name: 'monitoring' } } }

const policyOf = (type: 'mcp' | 'rest', containers: readonly ServiceContainer[], apiConnects = false) =>
  servicePolicyDraft(
    { owner, type, containers, config: serviceConfig.parse({ serviceId: '0123abcd', serviceType: type }) },
    { metricsFrom: [prometheus], apiConnects },
    { egress: [], baseUrls: {} },
  ).spec

const ingressOf = (type: 'mcp' | 'rest', containers: readonly ServiceContainer[], apiConnects = false) =>
  (policyOf(type, containers, apiConnects)?.ingress ?? []).map(({ from = [], ports = [] }) => ({
    from,
    ports: ports.map(({ port }) => port),
  }))

test('the API reaches samples and nothing else, and no other client reaches them', () => {
  const samples = (ports: readonly unknown[]) => ports.some(port => port === 8433 || port === 8434)
  const toRest = ingressOf('rest', rest)
  expect(toRest.filter(({ ports }) => samples(ports))).toEqual([{ from: [systemPods('api')], ports: [8433] }])
  expect(toRest.find(({ from }) => from.includes(prometheus as never))?.ports).toEqual([3001])
  expect(toRest[0]?.ports).toEqual([3000, 3001])
  const toMcp = ingressOf('mcp', mcp)
  expect(toMcp.filter(({ ports }) => samples(ports))).toEqual([{ from: [systemPods('api')], ports: [8433, 8434] }])
  expect(toMcp[0]?.ports).toEqual([8080, 8090])
  // Replicas of mcp reach each other's own ports.
  expect(JSON.stringify(policyOf('mcp', mcp)?.egress)).not.toMatch(/843[34]/)
})

test('the API reaches the port for clients only where it may connect, and then nothing else changes', () => {
  const toApi = (type: 'mcp' | 'rest', containers: readonly ServiceContainer[]) => ingressOf(type, containers, true)[1]
  // Neither the port of metrics, nor the bridge.
  expect(toApi('rest', rest)).toEqual({ from: [systemPods('api')], ports: [3000, 8433] })
  expect(toApi('mcp', mcp)).toEqual({ from: [systemPods('api')], ports: [8080, 8433, 8434] })
  const without = (type: 'mcp' | 'rest', containers: readonly ServiceContainer[], apiConnects: boolean) => ({
    ...policyOf(type, containers, apiConnects),
    ingress: policyOf(type, containers, apiConnects)?.ingress?.toSpliced(1, 1),
  })
  expect(without('rest', rest, true)).toEqual(without('rest', rest, false))
  expect(without('mcp', mcp, true)).toEqual(without('mcp', mcp, false))
})

test('samples are no port of the Service', () => {
  const { spec } = serviceDraft({ owner, type: 'rest', containers: rest }, '0123456789', '2026-01-01T00:00:00Z')
  expect(spec?.ports?.map(({ port }) => port)).toEqual([3000, 3001])
})
