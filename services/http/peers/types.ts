/** How a server's replicas reach each other. */
export type PeerSettings = {
  /** The address at which other replicas reach this process. */
  readonly address: { readonly host: string; readonly port: number }
  /** The secret that all replicas share and use for nothing else. */
  readonly secret: string
}
