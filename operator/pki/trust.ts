/** The certificate authorities that the installation uses. Its own certificate and key are those of the one that signs. */
import type { Authority } from './index.ts'

export type Trust = Authority & {
  /** The certificates that servers and clients trust, PEM; the one that signs is first. */
  bundle: string
  /** Every authority whose key is known, the one that signs first. Each server can be reached with one of them. */
  known: readonly Authority[]
  /** The certificates of `known`, PEM. */
  accepted: string
  /** Differs for another signer or another bundle. */
  mark: string
  isChanging: boolean
}
