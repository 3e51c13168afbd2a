/** The installation's certificate authorities. `certificate` and `key` belong to the signing authority. */
import type { Authority } from './index.ts'

export type Trust = Authority & {
  /** The certificates that servers and clients trust, PEM. The signing authority's is first. */
  bundle: string
  /**
   * Every authority with a known key, the signing one first. The operator can connect to each server with one of them.
   */
  known: readonly Authority[]
  /** The certificates of `known`, PEM. */
  accepted: string
  /** Changes with the signing authority or the bundle. */
  digest: string
  isChanging: boolean
}
