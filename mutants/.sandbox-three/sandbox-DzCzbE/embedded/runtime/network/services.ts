/** From a Service to a pod that serves it: selection by labels, ready pods only unless it says otherwise, one after the other. */
// @ts-nocheck

import type { Pod, Service } from '../../../cluster/index.ts'
import type { Informer } from '../../../cluster/informer/index.ts'
import { portNumber } from '../pods/probes.ts'

export type Target = { namespace: string; service: string; port: number }
export type Address = { host: string; port: number }

/** Name of the pods' index by namespace. */
export const namespaceIndex = 'namespace'

type ServicesOptions = {
  services: Informer<'Service'>
  pods: Informer<'Pod'>
  readyAddress(pod: Pod): string | undefined
  /** Of a pod that runs, ready or not. */
  address(pod: Pod): string | undefined
}

const selects = (service: Service, pod: Pod): boolean => {
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

/** Finds where a Service's connections go; undefined where no pod is ready for it. */
export function createServiceResolver({ services, pods, readyAddress, address }: ServicesOptions) {
  let turn = 0
  return ({ namespace, service: name, port }: Target): Address | undefined => {
    const service = services.get({ namespace, name })
    if (service === undefined) return undefined
    const addressOf = service.spec?.publishNotReadyAddresses ? address : readyAddress
    const addresses = pods.byIndex(namespaceIndex, namespace).flatMap((pod): Address[] => {
      const host = selects(service, pod) ? addressOf(pod) : undefined
      const target = host === undefined ? undefined : targetPort(service, pod, port)
      return host === undefined || target === undefined ? [] : [{ host, port: target }]
    })
    turn = (turn + 1) % Number.MAX_SAFE_INTEGER
    return addresses[turn % addresses.length]
  }
}
