/** How fast a Postgres is by TLS, from a client on this machine: pgbench, and single sessions. */
import { execFile } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'

export type Address = { host: string; port: number; cert: string; key: string }

/** A session by TLS. */
export async function login({ host, port, cert, key }: Address): Promise<pg.Client> {
  const ssl = { rejectUnauthorized: false, cert, key }
  const client = new pg.Client({ host, port, user: 'postgres', database: 'postgres', ssl })
  client.on('error', () => {})
  await client.connect()
  return client
}

/** Transactions a second; undefined where there is no pgbench, or it fails. */
export async function pgbench({ host, port, cert, key }: Address, flags: string[]): Promise<number | undefined> {
  const directory = mkdtempSync(join(tmpdir(), 'espalier-pgbench-'))
  const [certFile, keyFile] = [join(directory, 'crt'), join(directory, 'key')]
  writeFileSync(certFile, cert)
  writeFileSync(keyFile, key)
  chmodSync(keyFile, 0o600)
  const env = { ...process.env, PGSSLMODE: 'require', PGSSLCERT: certFile, PGSSLKEY: keyFile, PGCONNECT_TIMEOUT: '5' }
  // Not waited for in place: the cluster lives in this process, and the gateway closes where it is out of touch with it.
  const { stdout } = await promisify(execFile)(
    'pgbench',
    ['-h', host, '-p', String(port), '-U', 'postgres', ...flags, 'postgres'],
    { env },
  ).catch(() => ({ stdout: '' }))
  rmSync(directory, { recursive: true })
  const tps = /tps = ([0-9.]+)/.exec(stdout)?.[1]
  return tps === undefined ? undefined : Number(tps)
}
