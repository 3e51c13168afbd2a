import type { Trust } from '../authority/state.ts'
import type { Owner } from '../objects/ownership.ts'
import type { PostgresTarget } from '../postgres/administrator.ts'
import { postgresPort } from '../postgres/configuration.ts'
import { serviceHost } from './children/addresses.ts'

/** How an owner's Postgres is reached at its pod's address. */
export const targetAt = (owner: Owner, host: string, { accepted }: Pick<Trust, 'accepted'>): PostgresTarget => ({
  host,
  port: postgresPort,
  serverName: serviceHost(owner),
  ca: accepted,
})
