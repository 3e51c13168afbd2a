/** The cluster as a gateway uses it: it reads routes, and writes its own Lease. Every `Cluster` implements it. */
import type { ReflectedCluster } from '../cluster/informer/reflector.ts'
import type { Draft, ObjectKey } from '../cluster/port.ts'

export type GatewayCluster = ReflectedCluster<'ConfigMap'> & {
  /** Like `Cluster.apply`. */
  apply(kind: 'Lease', lease: Draft<'Lease'>): Promise<unknown>
  /** Like `Cluster.delete`. */
  delete(kind: 'Lease', key: ObjectKey): Promise<void>
}
