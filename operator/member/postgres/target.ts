import type { Service } from '../../../cluster/index.ts'
import { labels } from '../../../crds/index.ts'
import type { Owner } from '../../objects/ownership.ts'
import type { Trust } from '../../pki/trust.ts'
import type { PostgresTarget } from '../../postgres/administrator.ts'
import { postgresPort } from '../../postgres/configuration.ts'
import type { ObservedMember } from '../observed.ts'
import { serviceHost } from '../pod/addresses.ts'

/**
 * The way that clients take to a Postgres: by the address of its Service, which the cluster's nodes learn of a little after the
 * Service itself; `direct` where Services have no address, as on the embedded default, whose gateway looks where one leads at
 * each connection. `elsewhere`: the Service leads to another incarnation, or is not there yet.
 */
export type ClientPath = { by: 'service'; address: string } | { by: 'direct' } | { by: 'elsewhere' }

/** What `elsewhere` comes to, and a login by the Service that meets nobody. */
export const notSelectedMessage = 'its Service does not lead to it yet'

type Led = Pick<ObservedMember, 'incarnation'> & { children: { service?: Pick<Service, 'spec'> | undefined } }

export function clientPath({ children: { service }, incarnation }: Led): ClientPath {
  if (service?.spec?.selector?.[labels.incarnation] !== String(incarnation)) return { by: 'elsewhere' }
  const { clusterIP } = service.spec
  return clusterIP === undefined ? { by: 'direct' } : { by: 'service', address: clusterIP }
}

/** How an owner's Postgres is reached at its pod's address. */
export const targetAt = (owner: Owner, host: string, { accepted }: Pick<Trust, 'accepted'>): PostgresTarget => ({
  host,
  port: postgresPort,
  serverName: serviceHost(owner),
  ca: accepted,
})
