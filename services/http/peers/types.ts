/** How replicas of a server reach one another. */
export type PeerSettings = {
  /** Where the other replicas reach this one. */
  readonly address: { readonly host: string; readonly port: number }
  /** The same for all replicas, and known to nothing else. */
  readonly secret: string
}
