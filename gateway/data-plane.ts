/**
 * What carries the connections of a gateway replica: an in-process proxy (in-process.ts) or HAProxy (haproxy/). The
 * rest of a replica (replica.ts) is the same for both and knows them only by this.
 */
import type { HostTable } from './http/table.ts'
import type { RouteTable } from './table.ts'

export type DataPlane = {
  /** From now on these tables count, and no others. They need not be in force when this returns. */
  put(table: RouteTable, hosts: HostTable): void
  /**
   * Resolves once every table put before is in force: no connection that arrives from then on is judged by an older one.
   * Resolves to the routed ports that cannot be listened on.
   * @throws Error where it cannot be brought into force now; the replica is then no gateway, and does not say it is.
   */
  inForce(): Promise<{ refusedPorts: number[] }>
  /** The digest of the certificates that new HTTPS connections see (`certificatesDigest`); undefined where HTTPS is not served. */
  httpsCertificates(): string | undefined
  /** New connections may be admitted until then, in milliseconds since the epoch, and no longer, whatever happens. */
  admitUntil(deadline: number): void
  /** Admits nobody from now on, whatever is called later. Resolves to whether that is certain; sessions go on either way. */
  close(): Promise<boolean>
}
