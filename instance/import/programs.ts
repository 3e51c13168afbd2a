/** Postgres's programs for an import: their location, their environment, and their errors. */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { accessSync, constants, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Endpoint } from './contract.ts'
import { ImportError } from './fault.ts'

export type Programs = { directory: string; major: number }

const needed = ['pg_dump', 'pg_restore', 'psql'] as const

/** Directories with the programs, in the format of PATH. They are searched first. */
export const programsVariable = 'ESPALIER_POSTGRES_PROGRAMS'

/** Directories with one directory per major version, as in distributions' packages. */
const parents = ['/usr/lib/postgresql', '/usr/local/lib/postgresql', '/opt/postgresql']

function candidates(environment: NodeJS.ProcessEnv): string[] {
  const named = [environment[programsVariable], environment.PATH].flatMap(list => (list ?? '').split(':'))
  const packaged = parents.flatMap(parent => {
    try {
      return readdirSync(parent).map(major => join(parent, major, 'bin'))
    } catch {
      return []
    }
  })
  const all = ['/usr/pgsql-18/bin', '/usr/pgsql-17/bin', '/usr/pgsql-16/bin', '/usr/local/bin', '/usr/bin']
  return [...new Set([...named, ...packaged, ...all])].filter(directory => directory.startsWith('/'))
}

function hasAll(directory: string): boolean {
  try {
    for (const name of needed) accessSync(join(directory, name), constants.X_OK)
    return true
  } catch {
    return false
  }
}

async function majorIn(directory: string): Promise<number | undefined> {
  try {
    const { stdout } = await promisify(execFile)(join(directory, 'pg_dump'), ['--version'], { timeout: 10_000 })
    const major = / (\d+)[.\w]/.exec(stdout)?.[1]
    return major === undefined ? undefined : Number(major)
  } catch {
    return undefined
  }
}

/**
 * Finds the newest programs that are not newer than the target, because newer programs restore settings that the target
 * does not know.
 * @throws ImportError `ProgramsMissing`
 */
export async function findPrograms(target: number, environment: NodeJS.ProcessEnv = process.env): Promise<Programs> {
  const found: Programs[] = []
  for (const directory of candidates(environment).filter(hasAll)) {
    const major = await majorIn(directory)
    if (major !== undefined && major <= target) found.push({ directory, major })
  }
  const [best] = found.sort((one, other) => other.major - one.major)
  if (best === undefined)
    throw new ImportError(
      'ProgramsMissing',
      `this machine has no ${needed.join(', ')} of Postgres ${target} or older: ${howToInstall(target)}`,
    )
  return best
}

export const howToInstall = (major: number): string =>
  `install the client programs of Postgres ${major}, such as Debian's postgresql-client-${major}`

export type Files = { ca: (pem: string | undefined) => string; home: string }

/** Contains nothing from this process's environment, because libpq reads many variables. */
export function environmentOf(endpoint: Endpoint, { ca, home }: Files): NodeJS.ProcessEnv {
  const { host, address, port, database, user, password, sslmode, channelBinding } = endpoint
  return {
    ...{ PATH: '/usr/bin:/bin', HOME: home, TMPDIR: home, LC_ALL: 'C', TZ: 'UTC' },
    ...{ PGHOST: host, PGHOSTADDR: address, PGPORT: String(port), PGDATABASE: database },
    ...{ PGUSER: user, PGPASSWORD: password, PGSSLMODE: sslmode, PGGSSENCMODE: 'disable' },
    ...{ PGCONNECT_TIMEOUT: '15', PGAPPNAME: 'espalier import', PGCLIENTENCODING: 'UTF8' },
    ...(sslmode.startsWith('verify') ? { PGSSLROOTCERT: ca(endpoint.ca) } : {}),
    ...(channelBinding === undefined ? {} : { PGCHANNELBINDING: channelBinding }),
  }
}

/** The limit of a program's standard error, because a restore may repeat a statement of several megabytes. */
const mostErrorText = 64 * 1024

type Started = {
  child: ChildProcess
  /**
   * Resolves with the program's standard error. If the exit code is not 0, rejects with the result of `failed` for this
   * text.
   */
  ended: Promise<string>
}

export function start(
  path: string,
  args: readonly string[],
  options: {
    env: NodeJS.ProcessEnv
    signal: AbortSignal
    failed: (text: string) => Error
    onLine?: (line: string) => void
    stdio?: ['pipe' | 'ignore', 'pipe' | 'ignore']
  },
): Started {
  const { env, signal, failed, onLine, stdio = ['ignore', 'ignore'] } = options
  const child = spawn(path, args, { env, cwd: '/', stdio: [...stdio, 'pipe'], signal, killSignal: 'SIGKILL' })
  let text = ''
  let line = ''
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
    const lines = `${line}${chunk}`.split('\n')
    line = (lines.pop() ?? '').slice(-mostErrorText)
    for (const outputLine of lines) {
      onLine?.(outputLine)
      // A verbose restore writes a line for each object.
      if (
        !/^pg_(?:restore|dump): (?:processing|creating|executing|finished|launching|connecting|last built|implied|entering|reading|saving|dropping)/.test(
          outputLine,
        )
      )
        text = `${text}${outputLine}\n`.slice(0, mostErrorText)
    }
  })
  const ended = new Promise<string>((resolve, reject) => {
    child.once('error', error => reject(signal.aborted ? signal.reason : failed(error.message)))
    child.once('close', code => {
      if (code === 0) resolve(text)
      else reject(signal.aborted ? signal.reason : failed(`${text}${line}`))
    })
  })
  ended.catch(() => {})
  return { child, ended }
}
