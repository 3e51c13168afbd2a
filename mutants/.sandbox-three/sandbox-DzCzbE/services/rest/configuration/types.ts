/** What the server runs with, once every source has been read. keys.ts says what each key means and takes. */
// @ts-nocheck

import type { Settings } from '../../configuration/catalogue.ts'
import type { keys } from './keys.ts'

/** Every key as given; the secret still in its Base64. */
type RestSettings = Settings<typeof keys>

export type RestConfiguration = Omit<RestSettings, 'jwtSecret' | 'jwtSecretIsBase64'> & {
  /** Text as configured (its file read), or the bytes that its Base64 stands for. */
  jwtSecret?: string | Uint8Array
  /** Of `app.settings.NAME`, by NAME in small letters (Postgres does not tell them apart). */
  appSettings: Readonly<Record<string, string>>
}
