/** How the service is configured: PostgREST's file format and names, with an environment of its own (PostgREST's documentation, "Configuration"). */
// @ts-nocheck

import type { ConfigurationForm } from '../../configuration/sources.ts'
import { parseFile } from '../../configuration/syntax.ts'
import { keys } from './keys.ts'

export const openPrefix = 'app.settings.'

export const form: ConfigurationForm<typeof keys> = {
  catalogue: keys,
  parse: parseFile,
  environmentPrefix: 'ESPALIER_REST_',
  databasePrefixes: ['pgrst.', 'rst.'],
  openPrefix,
  // A value that is no truth is refused later; until then the default holds.
  heedsDatabase(given) {
    const parsed = keys.dbConfig.schema.safeParse(given.get('dbConfig')?.value ?? '')
    return parsed.success ? parsed.data : true
  },
}
