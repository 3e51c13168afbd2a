/** Settings of the servers that bench/rest.ts compares, and Espalier's as a separate program. */
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { type Server, type Settings, startProgram } from '../services/rest/testing/programs.ts'

/** Settings of both. */
export const commonSettings = (dbUri: string, pool: number) => ({
  'db-uri': dbUri,
  'db-schemas': 'public',
  'db-anon-role': 'anonymous',
  'db-pool': pool,
})

export const startService = (directory: string, workers: number, settings: Settings): Promise<Server> =>
  startProgram({
    name: `ours, ${workers} worker${workers === 1 ? '' : 's'}`,
    directory,
    settings: { ...settings, 'server-workers': workers },
    run: configuration => {
      const script = fileURLToPath(new URL('../bin/espalier.mjs', import.meta.url))
      return spawn(process.execPath, [script, 'rest', configuration], { stdio: ['ignore', 'ignore', 'pipe'] })
    },
  })
