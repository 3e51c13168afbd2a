/**
 * The interface of a gateway replica's data plane: an in-process proxy (in-process.ts) or HAProxy (haproxy/). The rest
 * of a replica (replica.ts) is the same for both and uses only this interface.
 */
import type { HostTable } from './http/table.ts'
import type { RouteTable } from './table.ts'

export type DataPlane = {
  /** Replaces all tables with these. They need not be applied when this returns. */
  put(table: RouteTable, hosts: HostTable): void
  /**
   * Resolves once every table set before is applied: no later connection uses an older one. Resolves to the routed
   * ports that cannot be listened on.
   * @throws Error if the tables cannot be applied now; the replica is then no gateway, and does not report itself as
   * one.
   */
  inForce(): Promise<{ refusedPorts: number[] }>
  /** The digest of the certificates for new HTTPS connections (`certificatesDigest`); undefined without HTTPS. */
  httpsCertificates(): string | undefined
  /**
   * The deadline until which new connections may be admitted, in milliseconds since the epoch, whatever else happens.
   */
  admitUntil(deadline: number): void
  /**
   * Admits no connection from now on, whatever is called later. Resolves to whether that is certain; sessions continue
   * either way.
   */
  close(): Promise<boolean>
}
