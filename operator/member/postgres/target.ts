import type { Service } from '../../../cluster/index.ts'
import { labels } from '../../../crds/index.ts'
import type { Owner } from '../../objects/ownership.ts'
import type { Trust } from '../../pki/trust.ts'
import type { PostgresTarget } from '../../postgres/administrator.ts'
import { postgresPort } from '../../postgres/configuration.ts'
import type { ObservedMember } from '../observed.ts'
import { serviceHost } from '../pod/addresses.ts'

/**
 * How clients reach a Postgres.
 *
 * - `service`: through the Service's address. Nodes route the address shortly after the Service is created.
 * - `direct`: Services have no address, as in the embedded cluster. There the gateway resolves the Service at each
 *   connection.
 * - `elsewhere`: the Service routes to another incarnation, or does not exist yet.
 */
export type ClientPath = { by: 'service'; address: string } | { by: 'direct' } | { by: 'elsewhere' }

/** The message for `elsewhere`, and for a login through the Service that reaches no Postgres. */
export const notSelectedMessage = 'the Service does not route to this Postgres yet'

type Led = Pick<ObservedMember, 'incarnation'> & { children: { service?: Pick<Service, 'spec'> | undefined } }

export function clientPath({ children: { service }, incarnation }: Led): ClientPath {
  if (service?.spec?.selector?.[labels.incarnation] !== String(incarnation)) return { by: 'elsewhere' }
  const { clusterIP } = service.spec
  return clusterIP === undefined ? { by: 'direct' } : { by: 'service', address: clusterIP }
}

/** The connection to an owner's Postgres at its pod's address. */
export const targetAt = (owner: Owner, host: string, { accepted }: Pick<Trust, 'accepted'>): PostgresTarget => ({
  host,
  port: postgresPort,
  serverName: serviceHost(owner),
  ca: accepted,
})
