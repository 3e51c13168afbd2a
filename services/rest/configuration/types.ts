/** What the server runs with, once every source has been read. keys.ts says what each key means and takes. */
import type { z } from 'zod'
import type { keys } from './keys.ts'

type Optional<Schema> = Schema extends z.ZodOptional ? true : false
type Table = typeof keys
type Always = {
  [Field in keyof Table as Optional<Table[Field]['schema']> extends true ? never : Field]: z.output<
    Table[Field]['schema']
  >
}
type Sometimes = {
  [Field in keyof Table as Optional<Table[Field]['schema']> extends true ? Field : never]?: z.output<
    Table[Field]['schema']
  >
}

/** Every key as given; the secret still in its Base64. */
export type Settings = Always & Sometimes

export type RestConfiguration = Omit<Settings, 'jwtSecret' | 'jwtSecretIsBase64'> & {
  /** Text as configured (its file read), or the bytes that its Base64 stands for. */
  jwtSecret?: string | Uint8Array
  /** Of `app.settings.NAME`, by NAME in small letters (Postgres does not tell them apart). */
  appSettings: Readonly<Record<string, string>>
}
