/** Measures Postgres throughput over TLS from a client on this machine, with pgbench and with single sessions. */
import { execFile } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'

/** An address, with the superuser's certificate or a user's password. */
export type Address = { host: string; port: number } & (
  | { cert: string; key: string }
  | { user: string; password: string; database?: string }
)

const insecure = { rejectUnauthorized: false }

/** Opens a session over TLS. */
export async function login({ host, port, ...who }: Address): Promise<pg.Client> {
  const by = 'cert' in who ? { user: 'postgres', ssl: { ...insecure, ...who } } : { ...who, ssl: insecure }
  const client = new pg.Client({ host, port, database: 'postgres', ...by })
  client.on('error', () => {})
  await client.connect()
  return client
}

/** Returns the transactions per second. Returns undefined if pgbench is missing or fails. */
export async function pgbench({ host, port, ...who }: Address, flags: string[]): Promise<number | undefined> {
  const directory = mkdtempSync(join(tmpdir(), 'espalier-pgbench-'))
  const [certFile, keyFile] = [join(directory, 'crt'), join(directory, 'key')]
  if ('cert' in who) {
    writeFileSync(certFile, who.cert)
    writeFileSync(keyFile, who.key)
    chmodSync(keyFile, 0o600)
  }
  const by = 'cert' in who ? { PGSSLCERT: certFile, PGSSLKEY: keyFile } : { PGPASSWORD: who.password }
  const env = { ...process.env, PGSSLMODE: 'require', PGCONNECT_TIMEOUT: '5', ...by }
  const user = 'user' in who ? who.user : 'postgres'
  const database = ('user' in who ? who.database : undefined) ?? 'postgres'
  // This must not block: the cluster is in this process, and the gateway closes if it cannot reach the cluster.
  const { stdout } = await promisify(execFile)(
    'pgbench',
    ['-h', host, '-p', String(port), '-U', user, ...flags, database],
    { env },
  ).catch(() => ({ stdout: '' }))
  rmSync(directory, { recursive: true })
  const tps = /tps = ([0-9.]+)/.exec(stdout)?.[1]
  return tps === undefined ? undefined : Number(tps)
}
