/**
 * The address of a route's Service: its cluster IP, which is the same for all its pods. The gateway watches Espalier's
 * Services, and does not use the cluster's DNS. So the gateway detects a recreated Service at once, before another
 * Service can get the old address. No forged DNS response can redirect connections. The watch needs only the permission
 * to list and watch Services.
 */
import type { Logger } from 'pino'
import { createInformer } from '../../cluster/informer/index.ts'
import type { Service } from '../../cluster/kinds.ts'
import type { Cluster } from '../../cluster/port.ts'
import { labels, managedByEspalier } from '../../crds/metadata.ts'
import type { RouteTarget } from '../../routes/route.ts'
import { isTargetAddress } from './maps.ts'

type Targets = {
  /** `ip:port`. Undefined if Espalier has no such Service, or if it has no IPv4 address. */
  addressOf(target: RouteTarget): string | undefined
  /** Whether all Services have been read once. */
  synced(): boolean
  stop(): Promise<void>
}

export function followTargets(options: { cluster: Cluster; onChange: () => void; logger: Logger }): Targets {
  const { cluster, onChange, logger } = options
  const services = createInformer(cluster, 'Service', {
    labels: { [labels.managedBy]: managedByEspalier },
    transform: withAddressesOnly,
    logger,
  })
  const started = services.start().then(
    () => {
      services.onChange(onChange)
      onChange()
    },
    // `start` fails if the agent is stopped before the Services were read.
    () => {},
  )
  return {
    addressOf: ({ namespace, service, port }) => {
      const { clusterIP, clusterIPs } = services.get({ namespace, name: service })?.spec ?? {}
      const address = [clusterIP, ...(clusterIPs ?? [])].find(ip => ip !== undefined && isTargetAddress(ip))
      return address === undefined ? undefined : `${address}:${port}`
    },
    synced: () => services.synced,
    stop: async () => {
      await services.stop()
      await started
    },
  }
}

function withAddressesOnly({ apiVersion, kind, metadata, spec }: Service): Service {
  const { name, namespace, uid, resourceVersion, labels } = metadata
  return {
    apiVersion,
    kind,
    metadata: { name, namespace, uid, resourceVersion, labels },
    spec: { clusterIP: spec?.clusterIP, clusterIPs: spec?.clusterIPs },
  }
}
