/**
 * The public conformance cases of PostgREST 14, under all their configurations. They run against `espalier rest` on a
 * real Postgres.
 */
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { freePort, type Major, startPostgres, type TestPostgres, withoutCopy } from '../testing/postgres.ts'
import { exceptions } from './testing/conformance-exceptions.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const cases = join(root, '../shared/rest-conformance')
const fixture = (name: string) => readFileSync(join(cases, name), 'utf8')
/** The data of the fixture's foreign table. Each run has its own file. */
const dumpFile = '/tmp/projects_dump.csv'

async function load(postgres: TestPostgres, directory: string): Promise<void> {
  await postgres.run(fixture('roles.sql'))
  await postgres.run('CREATE DATABASE conformance')
  const file = join(directory, 'projects.csv')
  await postgres.run(withoutCopy(fixture('fixture.sql')).replaceAll(dumpFile, file), 'conformance')
  await postgres.run(`COPY test.projects TO '${file}' CSV`, 'conformance')
  await postgres.run(`ALTER DATABASE conformance SET timezone TO 'utc'`)
  await postgres.run(`ALTER DATABASE conformance SET "request.jwt.claim.id" TO '-1'`)
  await postgres.run('ANALYZE', 'conformance')
}

type Report = { totals: Record<string, number>; failures: { id: string; what: string; actual: unknown }[] }

async function runCases(dbUri: string, directory: string): Promise<Report> {
  const report = join(directory, 'report.json')
  const server = `${process.execPath} ${join(root, 'bin/espalier.mjs')} rest {conf}`
  const options = ['--cases', join(cases, 'cases.json'), '--error-prefix', 'RST', '--report', report]
  const how = ['--server-cmd', server, '--port', String(await freePort()), '--db-uri', dbUri]
  // One function of these cases needs seconds of CPU time, and other processes use the same CPU.
  const limits = ['--start-timeout', '60', '--timeout', '120']
  const child = spawn('python3', [join(cases, 'run.py'), ...options, ...how, ...limits], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let output = ''
  child.stderr.setEncoding('utf8').on('data', text => {
    output += text
  })
  await new Promise<void>((resolve, reject) => child.once('error', reject).once('exit', () => resolve()))
  if (!existsSync(report)) throw new Error(`the conformance cases did not run: ${output}`)
  return JSON.parse(readFileSync(report, 'utf8'))
}

const isThere = existsSync(join(cases, 'cases.json'))
const title = isThere
  ? 'conformance of the REST service on Postgres %s'
  : 'conformance of the REST service: needs the public cases (%s)'

test.skipIf(!isThere).concurrent.each<Major>(['16', '17', '18'])(title, { timeout: 400_000 }, async major => {
  const postgres = await startPostgres(major)
  const directory = mkdtempSync(join(tmpdir(), 'espalier-rest-conformance-'))
  try {
    await load(postgres, postgres.directory)
    const { totals, failures } = await runCases(postgres.uri('authenticator', 'conformance'), directory)
    const failed = failures.map(({ id }) => id)
    expect(totals.passed).toBe(749 - failed.length)
    expect(failures.filter(({ id }) => !Object.hasOwn(exceptions, id))).toEqual([])
    expect(Object.keys(exceptions).filter(id => !failed.includes(id))).toEqual([])
    expect(failed.length).toBeLessThanOrEqual(8)
  } finally {
    await postgres.stop()
    rmSync(directory, { recursive: true, force: true })
  }
})
