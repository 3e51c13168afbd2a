/** The settings of the servers that bench/rest.ts compares. As a program, it runs Espalier's server. */
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { type Server, type Settings, startProgram } from '../services/rest/testing/programs.ts'

/** Returns the settings of both servers. */
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
