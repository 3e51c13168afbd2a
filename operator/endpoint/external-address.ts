/** The address with which clients outside the cluster connect to an owner's Postgres. */
import type { Endpoint, Region } from '../../crds/index.ts'
import type { Owner } from '../objects/ownership.ts'
import { type ServerNames, serverNames } from './certificate.ts'

type ExternalAddress = { domain: string; host: string; externalIpAddress?: string }

export function externalAddressOf(owner: Owner, { spec: { domain: suffix, gateway } }: Region): ExternalAddress {
  const domain = `${owner.hostLabel}.${suffix}`
  const { host = domain, externalIpAddress } = gateway
  return { domain, host, ...(externalIpAddress === undefined ? {} : { externalIpAddress }) }
}

export const endpointOf = ({ domain: _, ...address }: ExternalAddress, port: number): Endpoint => ({ ...address, port })

/** The names in the server's certificate. */
export const desiredNames = (owner: Owner, region: Region): ServerNames =>
  serverNames(owner, externalAddressOf(owner, region))
