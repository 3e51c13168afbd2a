/** The network objects of a service: its Service, its NetworkPolicy and its disruption budget. */
import type { Draft, NetworkPolicy } from '../../cluster/index.ts'
import { childNames, labels, type ServiceConfig, servicePorts } from '../../crds/index.ts'
import { samplesPortPattern } from '../../server/samples.ts'
import { systemPods } from '../endpoint/network-policy.ts'
import { type Component, childMetadata, type Owner } from '../objects/ownership.ts'
import type { PodSettings } from '../pod-settings.ts'
import { postgresPort } from '../postgres/configuration.ts'
import type { ServiceContainer, ServiceType } from './configuration/index.ts'
import { serviceComponent, servicePodLabels } from './names.ts'
import type { ServiceInstallationSettings } from './settings.ts'

/** On a Service: when its selector last changed, RFC 3339. The previous workload is deleted some time after that. */
export const switchedAnnotation = 'espalier.dev/switched-at'

const addressMetadata = (owner: Owner, type: ServiceType) => {
  const metadata = childMetadata(owner, childNames.serviceAddress(owner.id, type), serviceComponent)
  return { ...metadata, labels: { ...metadata.labels, [labels.service]: type } }
}

type Address = { owner: Owner; type: ServiceType; containers: readonly ServiceContainer[] }

const allPortsOf = ({ containers }: Address) => containers.flatMap(({ ports }) => ports)

/** The ports for samples are not in the Service. */
const portsOf = (address: Address) => allPortsOf(address).filter(({ name }) => !samplesPortPattern.test(name))

/** `digest`: of the workload that serves. */
export function serviceDraft(address: Address, digest: string, switchedAt: string): Draft<'Service'> {
  const { owner, type } = address
  const metadata = addressMetadata(owner, type)
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { ...metadata, annotations: { ...metadata.annotations, [switchedAnnotation]: switchedAt } },
    spec: {
      type: 'ClusterIP',
      selector: { ...servicePodLabels(owner, type), [labels.configuration]: digest },
      ports: portsOf(address).map(({ name, port }) => ({ name, port, protocol: 'TCP', targetPort: port })),
    },
  }
}

/** Ports whose paths are not for clients: metrics and health. */
const metricsPorts = ['admin', 'metrics']

/**
 * Only the gateway reaches a service's port for clients, because only the gateway enforces allowlists and tokens. With
 * `apiConnects`, the API reaches this port, too, to forward requests of its own callers. The API always reaches the
 * samples, and the collector of `metricsFrom` the metrics. A pod of `mcp` reaches the other pod, which may have the
 * session of a request. A service reaches its Postgres, DNS and, if it uses one, its model provider.
 */
export function servicePolicyDraft(
  address: Address & { config: ServiceConfig },
  { metricsFrom, apiConnects }: Pick<PodSettings, 'metricsFrom' | 'apiConnects'>,
  settings: Pick<ServiceInstallationSettings, 'egress' | 'baseUrls'>,
): Draft<'NetworkPolicy'> {
  const { owner, type, config } = address
  const ports = portsOf(address)
  const tcp = (some: readonly { port: number }[]) => some.map(({ port }) => ({ protocol: 'TCP', port }))
  const metrics = ports.filter(({ name }) => metricsPorts.includes(name))
  const samples = allPortsOf(address).filter(({ name }) => samplesPortPattern.test(name))
  const peers = type === 'mcp' ? [{ podSelector: { matchLabels: servicePodLabels(owner, type) } }] : []
  const postgres = { [labels.database]: owner.id, [labels.component]: 'postgres' satisfies Component }
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: addressMetadata(owner, type),
    spec: {
      podSelector: { matchLabels: servicePodLabels(owner, type) },
      policyTypes: ['Ingress', 'Egress'],
      ingress: [
        { from: [systemPods('gateway'), ...peers], ports: tcp(ports) },
        { from: [systemPods('api')], ports: tcp([...(apiConnects ? [{ port: servicePorts[type] }] : []), ...samples]) },
        ...(metricsFrom.length > 0 && metrics.length > 0 ? [{ from: [...metricsFrom], ports: tcp(metrics) }] : []),
      ],
      egress: [
        { to: [{ podSelector: { matchLabels: postgres } }], ports: tcp([{ port: postgresPort }]) },
        {
          ports: [
            { protocol: 'UDP', port: 53 },
            { protocol: 'TCP', port: 53 },
          ],
        },
        ...(peers.length > 0 ? [{ to: peers, ports: tcp(ports) }] : []),
        ...toProviders(config, settings),
      ],
    } as NonNullable<NetworkPolicy['spec']>, // what zod leaves out of metricsFrom it types as undefined
  }
}

type Provider = keyof ServiceInstallationSettings['baseUrls']

/** The providers of models that a service sends requests to. */
function providersOf({ mcp, rag }: ServiceConfig): Provider[] {
  if (rag === undefined) return mcp?.embeddingProvider === undefined ? [] : [mcp.embeddingProvider]
  const models = [rag, ...rag.pipelines].flatMap(({ embeddingLlm, completionLlm }) => [embeddingLlm, completionLlm])
  return [...new Set(models.flatMap(model => (model === undefined ? [] : [model.provider])))]
}

function toProviders(
  config: ServiceConfig,
  { egress, baseUrls }: Pick<ServiceInstallationSettings, 'egress' | 'baseUrls'>,
): NonNullable<NonNullable<NetworkPolicy['spec']>['egress']> {
  const providers = providersOf(config)
  if (providers.length === 0 || egress.length === 0) return []
  const ports = new Set(providers.map(provider => portOf(baseUrls[provider])))
  return [
    {
      to: egress.map(({ cidr, except }) => ({ ipBlock: { cidr, ...(except === undefined ? {} : { except }) } })),
      ports: [...ports].map(port => ({ protocol: 'TCP', port })),
    },
  ]
}

function portOf(url: string | undefined): number {
  const { port, protocol } = new URL(url ?? 'https://provider')
  return port === '' ? (protocol === 'http:' ? 80 : 443) : Number(port)
}

/** For a service with two pods: at most one of them may be evicted at a time. */
export function serviceBudgetDraft(owner: Owner, type: ServiceType): Draft<'PodDisruptionBudget'> {
  return {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata: addressMetadata(owner, type),
    spec: {
      maxUnavailable: 1,
      unhealthyPodEvictionPolicy: 'AlwaysAllow',
      selector: { matchLabels: servicePodLabels(owner, type) },
    },
  }
}
