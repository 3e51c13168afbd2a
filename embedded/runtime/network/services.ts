/** Resolves a Service to its pods: by label selector; by default, only to ready pods. */
import type { Pod, Service } from '../../../cluster/index.ts'
import type { Informer } from '../../../cluster/informer/index.ts'
import { portNumber } from '../pods/probes.ts'

export type Target = { namespace: string; service: string; port: number }
export type Address = { host: string; port: number }

/** Name of the namespace index of pods and Services. */
export const namespaceIndex = 'namespace'

export type ServicesOptions = {
  services: Informer<'Service'>
  pods: Informer<'Pod'>
  readyAddress(pod: Pod): string | undefined
  /** The address of a running pod, ready or not. */
  address(pod: Pod): string | undefined
}

export const selects = (service: Service, pod: Pod): boolean => {
  const selector = Object.entries(service.spec?.selector ?? {})
  // As in Kubernetes, a Service without a selector selects no pods.
  return selector.length > 0 && selector.every(([label, value]) => pod.metadata.labels?.[label] === value)
}

/** The container port of a Service port; undefined if the Service has no such port. */
function targetPort(service: Service, pod: Pod, port: number): number | undefined {
  const declared = service.spec?.ports?.find(candidate => candidate.port === port)
  const ports = pod.spec?.containers.flatMap(container => container.ports ?? []) ?? []
  return declared && portNumber(declared.targetPort ?? declared.port, ports)
}

/** The current targets of connections to a Service port. */
export function addressesOf(
  { pods, readyAddress, address }: ServicesOptions,
  service: Service,
  port: number,
): Address[] {
  const addressOf = service.spec?.publishNotReadyAddresses ? address : readyAddress
  return pods.byIndex(namespaceIndex, service.metadata.namespace ?? '').flatMap((pod): Address[] => {
    const host = selects(service, pod) ? addressOf(pod) : undefined
    const target = host === undefined ? undefined : targetPort(service, pod, port)
    return host === undefined || target === undefined ? [] : [{ host, port: target }]
  })
}

/** Returns the target of a Service's next connection, round robin; undefined if no pod is ready. */
export function createServiceResolver(options: ServicesOptions) {
  let nextIndex = 0
  return ({ namespace, service: name, port }: Target): Address | undefined => {
    const service = options.services.get({ namespace, name })
    if (service === undefined) return undefined
    const addresses = addressesOf(options, service, port)
    nextIndex = (nextIndex + 1) % Number.MAX_SAFE_INTEGER
    return addresses[nextIndex % addresses.length]
  }
}
