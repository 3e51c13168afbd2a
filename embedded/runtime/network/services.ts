/** From a Service to the pods that serve it: selection by labels, ready pods only unless it says otherwise. */
import type { Pod, Service } from '../../../cluster/index.ts'
import type { Informer } from '../../../cluster/informer/index.ts'
import { portNumber } from '../pods/probes.ts'

export type Target = { namespace: string; service: string; port: number }
export type Address = { host: string; port: number }

/** Name of the index by namespace, of pods and of Services. */
export const namespaceIndex = 'namespace'

export type ServicesOptions = {
  services: Informer<'Service'>
  pods: Informer<'Pod'>
  readyAddress(pod: Pod): string | undefined
  /** Of a pod that runs, ready or not. */
  address(pod: Pod): string | undefined
}

export const selects = (service: Service, pod: Pod): boolean => {
  const selector = Object.entries(service.spec?.selector ?? {})
  // Kubernetes: a Service without a selector selects nothing.
  return selector.length > 0 && selector.every(([label, value]) => pod.metadata.labels?.[label] === value)
}

/** The container port behind a port of the Service, or undefined where the Service has no such port. */
function targetPort(service: Service, pod: Pod, port: number): number | undefined {
  const declared = service.spec?.ports?.find(candidate => candidate.port === port)
  const ports = pod.spec?.containers.flatMap(container => container.ports ?? []) ?? []
  return declared && portNumber(declared.targetPort ?? declared.port, ports)
}

/** Where connections to a port of a Service can go now. */
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

/** Finds where the next connection of a Service goes, one pod after the other; undefined where no pod is ready for it. */
export function createServiceResolver(options: ServicesOptions) {
  let turn = 0
  return ({ namespace, service: name, port }: Target): Address | undefined => {
    const service = options.services.get({ namespace, name })
    if (service === undefined) return undefined
    const addresses = addressesOf(options, service, port)
    turn = (turn + 1) % Number.MAX_SAFE_INTEGER
    return addresses[turn % addresses.length]
  }
}
