/**
 * Debian's Postgres with HypoPG, the extension for hypothetical indexes. Uses the newest installed major version that
 * has it.
 */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { postgresEnvironment } from '../../operator/postgres/testing/postgres.ts'
import { startPostgres, type TestPostgres } from './postgres.ts'

const installations = '/usr/lib/postgresql'
const extensionOf = (major: string) => `/usr/share/postgresql/${major}/extension/hypopg.control`

/** Whether HypoPG is installed. Debian's package is `postgresql-<major>-hypopg`. */
const majors = existsSync(installations)
  ? readdirSync(installations).filter(major => existsSync(extensionOf(major)))
  : []

export const hasHypopg = majors.length > 0

/** Starts a Postgres that has the extension in its own schema. */
export async function startHypopg(): Promise<TestPostgres> {
  const major = majors.sort((one, other) => Number(other) - Number(one))[0]
  if (major === undefined) throw new Error('there is no Postgres with HypoPG')
  // Directories and user are the same for each major version. PATH selects the programs.
  const environment = postgresEnvironment('16')
  const env = { ...environment.env, PATH: `${join(installations, major, 'bin')}:/usr/bin:/bin` }
  const postgres = await startPostgres('16', {}, { ...environment, env })
  await postgres.run('CREATE SCHEMA "own tools"; CREATE EXTENSION hypopg SCHEMA "own tools"')
  return postgres
}
