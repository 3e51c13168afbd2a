/**
 * A real Postgres for tests: a new cluster in a temporary directory. It has trust authentication, and a free port of
 * 127.0.0.1.
 */
import { spawn, spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { copyingEnvironment, freePort, temporaryDirectory } from '../../operator/postgres/testing/postgres.ts'

export { freePort }

export type Major = '16' | '17' | '18'

export type TestPostgres = {
  port: number
  /** Postgres's user owns it, and `stop` deletes it with the cluster. */
  directory: string
  /** The connection string for a role of the cluster, without a password. */
  uri(user: string, database?: string): string
  /** Runs SQL as the superuser. */
  run(sql: string, database?: string): Promise<pg.QueryResult>
  /** Stops the server immediately, like a crash. `start` restarts it on the same port. */
  crash(): Promise<void>
  start(): Promise<void>
  stop(): Promise<void>
}

/**
 * Starts a cluster with this major version. `settings`: added to its command line. `environment`: names its programs,
 * if they are not this project's programs.
 */
export async function startPostgres(
  major: Major,
  settings: Record<string, string> = {},
  environment = copyingEnvironment(major),
): Promise<TestPostgres> {
  const root = temporaryDirectory('rest')
  const data = join(root, 'data')
  const arguments_ = [`--pgdata=${data}`, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C', '-N']
  const made = spawnSync('initdb', arguments_, { ...environment, encoding: 'utf8' })
  if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr}`)
  let port = await freePort()
  let end = async () => {}

  async function start(): Promise<void> {
    const fixed = { listen_addresses: '127.0.0.1', port: String(port), unix_socket_directories: '', fsync: 'off' }
    const flags = Object.entries({ ...fixed, ...settings }).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const child = spawn('postgres', ['-D', data, ...flags], { ...environment, stdio: ['ignore', 'ignore', 'pipe'] })
    const ended = new Promise<void>(resolve => child.once('exit', () => resolve()))
    const lastResort = () => child.kill('SIGQUIT')
    process.once('exit', lastResort)
    end = async () => {
      process.off('exit', lastResort)
      child.kill('SIGQUIT')
      await ended
    }
    let log = ''
    const ready = new Promise<boolean>(resolve =>
      child.stderr.setEncoding('utf8').on('data', text => {
        log = (log + text).slice(-20_000)
        if (/ready to accept (read-only )?connections/.test(log)) resolve(true)
      }),
    )
    if (!(await Promise.race([ready, ended.then(() => false)]))) throw new Error(`postgres did not start: ${log}`)
  }

  // Another run on this machine may use the free port by now.
  for (let attempt = 1; ; attempt++) {
    try {
      await start()
      break
    } catch (error) {
      if (attempt === 5 || !String(error).includes('Address already in use')) throw error
      port = await freePort()
    }
  }
  const uri = (user: string, database = 'postgres') => `postgresql://${user}@127.0.0.1:${port}/${database}`
  return {
    port,
    directory: root,
    uri,
    start,
    crash: () => end(),
    async run(sql, database) {
      const client = new pg.Client(uri('postgres', database))
      await client.connect()
      try {
        return await client.query(sql)
      } finally {
        await client.end()
      }
    },
    async stop() {
      await end()
      rmSync(root, { recursive: true, force: true })
    },
  }
}

const unescaped: Record<string, string> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' }
const literal = (field: string) =>
  field === '\\N'
    ? 'NULL'
    : pg.escapeLiteral(field.replace(/\\(.)/gs, (_, character: string) => unescaped[character] ?? character))

/** A dump as plain SQL: its COPY blocks become INSERTs, and psql commands are removed. */
export function withoutCopy(dump: string): string {
  return dump
    .replace(/^\\(un)?restrict .*$/gm, '')
    .replace(/^COPY (.*) FROM stdin;\n((?:.*\n)*?)\\\.$/gm, (_, target: string, rows: string) => {
      if (rows === '') return ''
      const values = rows
        .slice(0, -1)
        .split('\n')
        .map(row => `(${row.split('\t').map(literal).join(', ')})`)
      return target.includes('()')
        ? values.map(() => `INSERT INTO ${target.replace('()', '')} DEFAULT VALUES;`).join('\n')
        : `INSERT INTO ${target} OVERRIDING SYSTEM VALUE VALUES ${values.join(',\n')};`
    })
}
