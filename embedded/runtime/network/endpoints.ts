/**
 * Reports the endpoints of Services to the gateway, like EndpointSlices in Kubernetes. The gateway's thread cannot call
 * the runtime's resolver. A change is reported in the same event loop turn, before any client can read it from the
 * cluster.
 */
import type { ObjectKey, Pod, Service } from '../../../cluster/index.ts'
import { keyText, parseKey } from '../../../cluster/informer/index.ts'
import { type Address, addressesOf, namespaceIndex, type ServicesOptions, selects } from './services.ts'

/** All addresses of a Service, by port. No ports if the Service is deleted. */
export type Endpoints = { namespace: string; service: string; ports: { port: number; addresses: Address[] }[] }

export type EndpointsFeed = {
  /** Notifies that a pod's readiness or address may have changed. */
  touch(pod: ObjectKey): void
  /** Reports all Services now, and later each Service whose endpoints change. */
  follow(report: (changes: Endpoints[]) => void): void
}

export function createEndpointsFeed(options: ServicesOptions): EndpointsFeed {
  const { services, pods } = options
  const followers = new Set<{ report: (changes: Endpoints[]) => void; reported: Map<string, string> }>()
  const touched = new Set<string>()

  const endpointsOf = (text: string): Endpoints => {
    const { namespace = '', name } = parseKey(text)
    const service = services.get({ namespace, name })
    const ports = (service?.spec?.ports ?? []).map(({ port }) => port)
    return {
      namespace,
      service: name,
      ports: service === undefined ? [] : ports.map(port => ({ port, addresses: addressesOf(options, service, port) })),
    }
  }

  const flush = (): void => {
    const current = [...touched].map(text => ({ text, endpoints: endpointsOf(text) }))
    touched.clear()
    for (const { report, reported } of followers) {
      const changes = current.filter(({ text, endpoints }) => {
        const content = JSON.stringify(endpoints.ports)
        if ((reported.get(text) ?? '[]') === content) return false
        if (endpoints.ports.length === 0) reported.delete(text)
        else reported.set(text, content)
        return true
      })
      if (changes.length > 0) report(changes.map(({ endpoints }) => endpoints))
    }
  }
  const touchService = (service: Service): void => {
    if (followers.size === 0) return
    if (touched.size === 0) queueMicrotask(flush)
    touched.add(keyText(service.metadata))
  }
  const touchServicesOf = (pod: Pod): void => {
    for (const service of services.byIndex(namespaceIndex, pod.metadata.namespace ?? ''))
      if (selects(service, pod)) touchService(service)
  }
  services.onChange(({ object }) => touchService(object))
  pods.onChange(({ object, previous }) => {
    touchServicesOf(object)
    if (previous !== undefined) touchServicesOf(previous)
  })

  return {
    touch: key => {
      const pod = followers.size === 0 ? undefined : pods.get(key)
      if (pod !== undefined) touchServicesOf(pod)
    },
    follow: report => {
      followers.add({ report, reported: new Map() })
      for (const service of services.list()) touchService(service)
    },
  }
}
