/** Collects the facts about an endpoint for a pass, and the passwords, which no plan reads. */
import type { Cluster, ConfigMap, NetworkPolicy, PodDisruptionBudget, Secret, Service } from '../../cluster/index.ts'
import { childNames, labels, systemNamespace } from '../../crds/index.ts'
import {
  acknowledged,
  type GatewayLease,
  gatewayComponent,
  portOfRoute,
  portRefusedBy,
  readRoute,
} from '../../routes/route.ts'
import { databaseRoles, type Passwords, previousPassword, rotationsOf, SealError } from '../../sealing/credentials.ts'
import type { InstallationKeys } from '../keys.ts'
import type { ObservedMember } from '../member/observed.ts'
import { conditionOf } from '../objects/conditions.ts'
import type { Instance } from '../objects/instance.ts'
import { passwordsVersion } from '../postgres/password-versions.ts'
import { containsMonitor, fingerprintOf, isGoodCertificate, isLoaded, issuedAt } from './certificate.ts'
import { openCredentials } from './credentials.ts'
import { desiredNames } from './external-address.ts'
import type {
  CertificateFacts,
  CredentialsFacts,
  EndpointChildren,
  ObservedEndpoint,
  ObservedPrerequisites,
  RequestedRotations,
  RouteFacts,
} from './observed.ts'

type Objects = {
  secrets: readonly Secret[]
  services: readonly Service[]
  networkPolicies: readonly NetworkPolicy[]
  disruptionBudgets: readonly PodDisruptionBudget[]
  routes: readonly ConfigMap[]
}

type EndpointRequest = {
  /** The member that serves, or that should serve. */
  member: ObservedMember
  rotations?: RequestedRotations | undefined
  objects: Objects
  keys: InstallationKeys
}

const noRotations: RequestedRotations = { requested: {}, isGivenUp: false }

/** `gateways`: the cached Leases of the gateways. */
export async function observeEndpoint(
  { cluster, gateways, now }: { cluster: Cluster; gateways: () => readonly GatewayLease[]; now: () => number },
  { member, rotations, objects, keys }: EndpointRequest,
): Promise<{ observed: ObservedEndpoint; passwords: Passwords | undefined }> {
  const { instance, isAtRest, region, drifts, podSettings, incarnation, postgres } = member
  const { observed, passwords } = observePrerequisites({ member, rotations, objects, keys }, now)
  const { route } = observed.children
  return {
    observed: {
      ...observed,
      ...{ isAtRest, region, drifts, podSettings, incarnation, postgres },
      route: await routeOf({ cluster, gateways: gateways() }, instance, isAtRest, route, now),
    },
    passwords,
  }
}

/** Reads the part of an endpoint that members wait for, even if they do not serve. */
export function observePrerequisites(
  { member: { instance, owner, region, incarnation }, rotations = noRotations, objects, keys }: EndpointRequest,
  now: () => number,
): { observed: ObservedPrerequisites; passwords: Passwords | undefined } {
  const children = owner ? childrenOf(owner.id, objects) : noChildren
  const { facts: credentials, passwords } = credentialsOf(children.credentials, keys, incarnation)
  const names = owner && region && desiredNames(owner, region)
  const certificate = certificateOf(children.certificate, keys, names, now)
  return { observed: { instance, rotations, children, credentials, certificate }, passwords }
}

const noChildren: EndpointChildren = {
  credentials: undefined,
  certificate: undefined,
  service: undefined,
  networkPolicy: undefined,
  disruptionBudget: undefined,
  route: undefined,
}

function childrenOf(id: string, objects: Objects): EndpointChildren {
  const named = <T extends { metadata: { name: string } }>(list: readonly T[], name: string): T | undefined =>
    list.find(({ metadata }) => metadata.name === name)
  const service = childNames.service(id)
  const routes = objects.routes
    .filter(({ metadata }) => portOfRoute(metadata.name) !== undefined)
    .toSorted((left, right) => (left.metadata.name < right.metadata.name ? -1 : 1))
  return {
    credentials: named(objects.secrets, childNames.credentials(id)),
    certificate: named(objects.secrets, childNames.tls(id)),
    service: named(objects.services, service),
    networkPolicy: named(objects.networkPolicies, service),
    disruptionBudget: named(objects.disruptionBudgets, service),
    route: routes[0],
  }
}

/** The content of a credentials Secret. Also its passwords, if the key opens them. */
export function credentialsOf(
  secret: Secret | undefined,
  { sealingKey }: InstallationKeys,
  incarnation: number,
): { facts: CredentialsFacts; passwords?: Passwords } {
  if (secret === undefined || sealingKey === undefined) return { facts: { state: 'absent' } }
  try {
    const { uid = '', creationTimestamp: mintedAt = '' } = secret.metadata
    const passwords = openCredentials(secret, sealingKey)
    const recorded = rotationsOf(secret)
    const rotations = Object.fromEntries(databaseRoles.map(role => [role, recorded[role]?.rotation]))
    const previous = databaseRoles.filter(role => secret.data?.[previousPassword(role)] !== undefined)
    // Roles on a restored volume have the backup's passwords, even if they record the current version. So the operator
    // sets the current passwords.
    const named = incarnation === 1 ? uid : `${uid}/${incarnation}`
    return {
      facts: {
        ...{ state: 'readable', passwordVersion: passwordsVersion(named, rotations), mintedAt, rotations, previous },
        ...(secret.immutable === true && { isImmutable: true }),
      },
      passwords,
    }
  } catch (error) {
    if (!(error instanceof SealError)) throw error
    return { facts: { state: 'unreadable', message: error.message } }
  }
}

function certificateOf(
  secret: Secret | undefined,
  { authority }: InstallationKeys,
  names: ReturnType<typeof desiredNames> | undefined,
  now: () => number,
): CertificateFacts {
  if (secret === undefined) return { state: 'absent' }
  const facts = { fingerprint: fingerprintOf(secret), issuedAt: issuedAt(secret), isLoaded: isLoaded(secret) }
  // Without the region, the names are unknown. So the certificate is not changed.
  const isGood = !authority || !names || (containsMonitor(secret) && isGoodCertificate(secret, authority, names, now))
  return { state: isGood ? 'good' : 'due', ...facts }
}

/**
 * Lists the gateways' Leases from the cluster, after the route was written, as routes/route.ts requires. For an
 * unchanged route it uses the cached Leases, which show whether a gateway can listen on its port.
 */
async function routeOf(
  { cluster, gateways }: { cluster: Cluster; gateways: readonly GatewayLease[] },
  instance: Instance,
  isAtRest: boolean,
  configMap: EndpointChildren['route'],
  now: () => number,
): Promise<RouteFacts | undefined> {
  const port = configMap && portOfRoute(configMap.metadata.name)
  if (configMap === undefined || port === undefined) return undefined
  const facts = { port, route: readRoute(configMap).route }
  if (isAtRest && conditionOf(instance.status, 'EndpointReady')?.status === 'True')
    return { ...facts, acknowledged: false, waitingFor: [], refused: portRefusedBy(port, gateways, now()).length > 0 }
  const { items } = await cluster.list('Lease', {
    namespace: systemNamespace,
    labels: { [labels.component]: gatewayComponent },
  })
  const { done, waitingFor } = acknowledged(configMap.metadata.resourceVersion ?? '', items, now())
  return { ...facts, acknowledged: done, waitingFor, refused: portRefusedBy(port, items, now()).length > 0 }
}
