/** The catalogue of an embedded installation: one region, and sizes for a laptop. */
import { createHash } from 'node:crypto'
import { lookup } from 'node:dns/promises'
import type { Draft } from '../cluster/index.ts'
import { apiVersion, type SizeShape } from '../crds/index.ts'
import type { PortRange } from './settings.ts'

const regionName = 'local'
export const gatewayHost = '127.0.0.1'

export const domain = 'espalier.localhost'

/**
 * Whether this machine resolves names in the region's domain to itself. By RFC 6761 (section 6.3) `localhost.` names
 * resolve to loopback addresses, but not every resolver does this.
 */
export const domainResolves = (resolve: (name: string) => Promise<{ address: string }> = lookup): Promise<boolean> =>
  resolve(`any.${domain}`).then(
    ({ address }) => address.startsWith('127.') || address === '::1',
    () => false,
  )

type RegionFacts = { databasePorts: PortRange; httpsPort: number; domainResolves: boolean }

/** `databasePorts`: the gateway's ports, one per database. */
export const regionDraft = ({ databasePorts, httpsPort, domainResolves: resolves }: RegionFacts): Draft<'Region'> => ({
  apiVersion,
  kind: 'Region',
  metadata: { name: regionName },
  spec: {
    domain,
    domainResolves: resolves,
    storageClass: 'local',
    snapshotClass: { name: 'local', atomic: true },
    gateway: {
      ...{ host: gatewayHost, externalIpAddress: gatewayHost, ports: databasePorts },
      https: { port: httpsPort },
    },
  },
})

type SizeOffer = { name: string; displayName: string; shape: SizeShape; priceAmount?: number }

const shape = (
  cpu: string,
  memory: string,
  storage: string,
  connections: number,
  qosClass: SizeShape['qosClass'],
): SizeShape => ({
  qosClass,
  cpuRequest: qosClass === 'guaranteed' ? cpu : '100m',
  cpuLimit: cpu,
  memoryRequest: memory,
  memoryLimit: memory,
  storageSize: storage,
  temporaryDataSize: '1Gi',
  sharedMemorySize: '64Mi',
  connections,
  postgresSettings: {},
})

const offers: SizeOffer[] = [
  { name: 'nano', displayName: 'Nano', shape: shape('500m', '256Mi', '1Gi', 20, 'burstable') },
  { name: 'small', displayName: 'Small', shape: shape('1', '1Gi', '10Gi', 50, 'burstable'), priceAmount: 1500 },
  { name: 'medium', displayName: 'Medium', shape: shape('2', '4Gi', '50Gi', 100, 'guaranteed'), priceAmount: 6000 },
  { name: 'large', displayName: 'Large', shape: shape('4', '8Gi', '100Gi', 200, 'guaranteed'), priceAmount: 12000 },
]

/** A UUID that is the same at every start: version 8 (RFC 9562, section 5.8) from the size's name and version. */
function idOf(name: string): string {
  const hex = createHash('sha256').update(`size/${name}`).digest('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}

export const sizeDrafts: Draft<'Size'>[] = offers.map(({ name, displayName, shape: sizeShape, priceAmount }) => ({
  apiVersion,
  kind: 'Size',
  metadata: { name: `${name}-v1` },
  spec: {
    id: idOf(`${name}-v1`),
    name,
    version: 1,
    displayName,
    shape: sizeShape,
    ...(priceAmount === undefined ? {} : { pricing: { priceAmount, currency: 'eur', billingInterval: 'month' } }),
  },
}))
