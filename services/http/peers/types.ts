/** How replicas of a server reach one another. */
export type PeerSettings = {
  /** The address at which other replicas reach this one. */
  readonly address: { readonly host: string; readonly port: number }
  /** The same secret in all replicas, used for nothing else. */
  readonly secret: string
}
