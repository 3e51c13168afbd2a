/**
 * The route of an owner's services: a ConfigMap with the addresses for the gateways, and with the clients that each
 * service accepts.
 */
import type { Draft } from '../../cluster/index.ts'
import { childNames, systemNamespace } from '../../crds/index.ts'
import { type HttpRoute, type HttpService, httpRouteName, routeKey } from '../../routes/route.ts'
import { maskedRules, routeLabels } from '../endpoint/route.ts'
import { type Owner, ownerAnnotations } from '../objects/ownership.ts'
import { servicePorts } from './configuration/index.ts'
import type { RequestedService } from './observed.ts'

/** The ports of a service that the gateway sends requests to. */
const portsOf = {
  mcp: { port: servicePorts.mcp.tools, bridgePort: servicePorts.mcp.bridge },
  rest: { port: servicePorts.rest.http },
  rag: { port: servicePorts.rag.http },
} as const

/** The port by the type of a service, as `status.services[].port` shows it. */
export const portOf = (type: keyof typeof portsOf): number => portsOf[type].port

export function httpServiceOf(
  owner: Owner,
  { config, tokenDigest }: RequestedService,
  unavailable: HttpService['unavailable'],
): HttpService {
  const { serviceType: service, ipAllowlist } = config
  const { port, ...bridge } = portsOf[service]
  return {
    service,
    target: { namespace: owner.namespace, service: childNames.serviceAddress(owner.id, service), port },
    ...bridge,
    rules: maskedRules({ ipAllowlist }),
    ...(tokenDigest === undefined ? {} : { tokenDigest }),
    ...(unavailable === undefined ? {} : { unavailable }),
  }
}

export function httpRouteDraft(owner: Owner, host: string, services: HttpService[]): Draft<'ConfigMap'> {
  const route: HttpRoute = { kind: 'http', host, databaseId: owner.id, label: owner.hostLabel, services }
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      name: httpRouteName(host),
      namespace: systemNamespace,
      labels: routeLabels(owner),
      annotations: ownerAnnotations(owner),
    },
    data: { [routeKey]: JSON.stringify(route) },
  }
}
