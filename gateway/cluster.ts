/** The reads and writes of a gateway: routes, and its own Lease. Every `Cluster` implements it. */
import type { ReflectedCluster } from '../cluster/informer/reflector.ts'
import type { Draft, ObjectKey } from '../cluster/port.ts'

export type GatewayCluster = ReflectedCluster<'ConfigMap'> & {
  /** As `Cluster.apply`. */
  apply(kind: 'Lease', lease: Draft<'Lease'>): Promise<unknown>
  /** As `Cluster.delete`. */
  delete(kind: 'Lease', key: ObjectKey): Promise<void>
}
