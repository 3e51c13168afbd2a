/** The certificate authorities that the installation uses. `certificate` and `key` are those of the signing one. */
import type { Authority } from './index.ts'

export type Trust = Authority & {
  /** The certificates that servers and clients trust, PEM; the signing one is first. */
  bundle: string
  /** Every authority whose key is known, the signing one first. Each server can be reached with one of them. */
  known: readonly Authority[]
  /** The certificates of `known`, PEM. */
  accepted: string
  /** Differs for another signing authority or another bundle. */
  digest: string
  isChanging: boolean
}
