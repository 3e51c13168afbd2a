/**
 * Measures an agent that archives a Postgres under load to an archive whose store is a directory: its additional memory
 * compared with an agent that does not archive, the rates of WAL and of a base backup, and the duration of commits.
 * ESPALIER_BENCH_WAL is the amount of WAL in MB (default: 500).
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import pg from 'pg'
import pino from 'pino'
import type { ArchiveStatus, BackupJob } from '../instance/archive/contract.ts'
import { bytesOfLsn } from '../instance/archive/wal.ts'
import { createAuthority, issueClientCertificate, issueServerCertificate } from '../operator/pki/index.ts'
import { createAdministrator } from '../operator/postgres/administrator.ts'
import { operatorCommonName, replicationCommonName } from '../operator/postgres/configuration.ts'
import { freePort, instanceId, startPostgres, temporaryDirectory } from '../operator/postgres/testing/postgres.ts'
import { against, percentile, print } from './statistics.ts'

const megabytes = Number(process.env.ESPALIER_BENCH_WAL ?? 500)
const authority = createAuthority()
const root = temporaryDirectory('bench-archiving')
const [archivePort, agentPort] = [await freePort(), await freePort()]
const path = (name: string): string => join(root, name)
const sleep = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

const wait = `until test -e "${path('markers')}/%f"; do sleep 0.1; done`
const postgres = await startPostgres({
  major: '18',
  tls: authority,
  shape: { connections: 20 },
  settings: { archive_command: wait, max_wal_size: '1GB' },
})
await createAdministrator({ authority, now: Date.now, logger: pino({ level: 'silent' }) }).ensureRoles(
  postgres.target,
  async () => ({ passwords: { admin: 'a', app: 'b', app_read_only: 'c' }, passwordVersion: 'first' }),
  new AbortController().signal,
)

async function startArchive(): Promise<ChildProcess> {
  const own = issueServerCertificate(authority, { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] })
  const uris = [`urn:espalier:archive:${instanceId}:1`]
  const client = issueClientCertificate(authority, { commonName: replicationCommonName, uris })
  mkdirSync(path('markers'))
  const files = {
    'archive.crt': client.cert,
    'archive.key': client.key,
    'ca.crt': authority.cert,
    crt: own.cert,
    key: own.key,
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(path(name), text)
  writeFileSync(path('keys'), Buffer.alloc(32, 7).toString('base64'))
  const store = ['--store', `file://${path('store')}`, '--key-file', path('keys')]
  const tls = ['--certificate', path('crt'), '--key', path('key'), '--client-authority', path('ca.crt')]
  const args = ['bin/espalier.mjs', 'archive', ...store, ...tls, '--listen', `127.0.0.1:${archivePort}`]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  child.stdout.resume()
  return child
}

/** Starts an agent with the V8 flags of operator/member/pod/agent.ts. */
async function startAgent(archives: boolean): Promise<ChildProcess> {
  const options = {
    ...{ id: instanceId, host: '127.0.0.1', port: agentPort, postgresPort: postgres.port },
    ...{ data: postgres.mounts.volume, tls: postgres.mounts.tls, state: path('agent') },
    ...(archives && { archive: { url: `https://127.0.0.1:${archivePort}`, tls: root, markers: path('markers') } }),
  }
  const script = `const { startAgent } = await import('./instance/agent/index.ts')
    await startAgent({ ...${JSON.stringify(options)}, log: line => console.error(line) }); console.log('ready')`
  const flags = ['--max-semi-space-size=1', '--input-type=module', '-e', script]
  const child = spawn(process.execPath, flags, { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  return child
}

async function ended(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  await exited
}

const memory = ({ pid }: ChildProcess, of: 'VmHWM' | 'VmRSS'): number =>
  Number(new RegExp(`${of}:\\s+(\\d+) kB`).exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024

const operator = issueClientCertificate(authority, { commonName: operatorCommonName })
async function call<Answer>(method: string, of: string): Promise<Answer> {
  const outgoing = request({
    ...{ host: '127.0.0.1', port: agentPort, path: of, method, agent: false },
    ...{ ca: authority.cert, servername: postgres.target.serverName, ...operator },
  })
  outgoing.end()
  const [response] = await once(outgoing, 'response')
  let body = ''
  for await (const chunk of response) body += chunk
  return JSON.parse(body) as Answer // the agent's responses have this type
}

const connect = async (): Promise<pg.Client> => {
  const ssl = { ca: authority.cert, servername: postgres.target.serverName, ...operator }
  const client = new pg.Client({ host: '127.0.0.1', port: postgres.port, user: 'postgres', database: 'app', ssl })
  await client.connect()
  return client
}

/** The content of the WAL. It compresses like base64. */
const message = randomBytes(750_000).toString('base64')

/** @returns the duration of each commit, in ms */
async function write(client: pg.Client, bytes: number): Promise<number[]> {
  const position = async () => bytesOfLsn((await client.query('SELECT pg_current_wal_lsn() AS at')).rows[0].at)
  const end = (await position()) + BigInt(bytes)
  const took: number[] = []
  while ((await position()) < end) {
    const began = performance.now()
    await client.query("SELECT pg_logical_emit_message(true, 'bench', $1::text)", [message])
    took.push(performance.now() - began)
  }
  return took
}

const archive = await startArchive()
const client = await connect()
try {
  const plain = await startAgent(false)
  const without = await write(client, (megabytes / 5) * 1e6)
  await sleep(2000)
  const own = memory(plain, 'VmHWM')
  await ended(plain)

  const agent = await startAgent(true)
  const began = performance.now()
  const took = await write(client, megabytes * 1e6)
  await client.query('SELECT pg_switch_wal()')
  const { rows } = await client.query<{ at: string }>('SELECT pg_current_wal_flush_lsn() AS at')
  const isArchived = async () => {
    const { archived, waitingFiles } = await call<ArchiveStatus>('GET', '/archive')
    return waitingFiles === 0 && archived !== null && bytesOfLsn(archived) >= bytesOfLsn(rows[0]?.at ?? '')
  }
  while (!(await isArchived())) await sleep(100)
  const seconds = (performance.now() - began) / 1000
  print(
    'WAL, written and archived',
    `${((megabytes * 1.2) / seconds).toFixed(1)} MB/s, the backlog of ${megabytes / 5} MB included`,
  )
  print(
    'commit of 1 MB, p95',
    `${percentile(took, 0.95).toFixed(0)} ms against ${percentile(without, 0.95).toFixed(0)} ms without`,
  )
  print(
    'memory above that of an agent that does not archive',
    against(memory(agent, 'VmHWM') - own, 40, 'at most', ' MiB'),
  )

  const id = '0190bbbb-0000-7000-8000-000000000001'
  const from = performance.now()
  await call('PUT', `/backups/${id}`)
  let job = await call<BackupJob>('GET', `/backups/${id}`)
  for (; job.state === 'running'; job = await call<BackupJob>('GET', `/backups/${id}`)) await sleep(200)
  if (job.state !== 'completed') throw new Error(job.error)
  const took2 = (performance.now() - from) / 1000
  print(
    'base backup by the agent',
    `${(job.bytes / 1e6 / took2).toFixed(1)} MB/s of ${(job.bytes / 1e6).toFixed(0)} MB`,
  )
  print('  the same, after a base backup', against(memory(agent, 'VmHWM') - own, 40, 'at most', ' MiB'))
  await ended(agent)
} finally {
  await client.end()
  await ended(archive)
  await postgres.stop()
  rmSync(root, { recursive: true, force: true })
}
