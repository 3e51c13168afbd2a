/**
 * The interface of a gateway replica's data plane: an in-process proxy (in-process.ts) or HAProxy (haproxy/). The rest
 * of a replica (replica.ts) is the same for both and uses only this interface.
 */
import type { HostTable } from './http/table.ts'
import type { RouteTable } from './table.ts'

export type DataPlane = {
  /** Replaces all tables with these tables. It may return before they are applied. */
  put(table: RouteTable, hosts: HostTable): void
  /**
   * Resolves once every earlier table is applied, so that no later connection uses an older table. Resolves to the
   * routed ports on which the gateway cannot listen.
   * @throws Error if the tables cannot be applied now. Then the replica does not report itself as a gateway.
   */
  applied(): Promise<{ refusedPorts: number[] }>
  /** The digest of the certificates for new HTTPS connections (`certificatesDigest`); undefined without HTTPS. */
  httpsCertificates(): string | undefined
  /**
   * Sets the deadline, in milliseconds since the epoch, after which no new connection is admitted, whatever else
   * happens.
   */
  admitUntil(deadline: number): void
  /**
   * Admits no more connections, even after later calls. Resolves to whether this is certain. Sessions continue in both
   * cases.
   */
  close(): Promise<boolean>
}
