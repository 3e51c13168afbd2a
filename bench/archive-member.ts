/**
 * Uses the archive in a separate process, as a member's containers do: `backup` as the agent does, `restore` as
 * `espalier instance prepare` does. Prints bytes, seconds and processor time. The argument is JSON with the options.
 */
import { mkdirSync } from 'node:fs'
import { connect } from 'node:net'
import { createBackups } from '../instance/archive/backup.ts'
import { createArchiveClient } from '../instance/archive/client.ts'
import { extractBase } from '../instance/recovery/base.ts'
import { openArchiveReader } from '../instance/recovery/client.ts'
import type { RecoverySource } from '../instance/recovery/source.ts'
import { ReplicationConnection } from '../instance/replication/connection.ts'

type Options = { work: 'backup' | 'restore'; url: string; tls: string; port: number; target: string } & {
  databaseId: string
  id: string
}
const options = JSON.parse(process.argv[2] ?? '') as Options // the benchmark passes them
const { url, tls, port, target, databaseId, id } = options

async function backup(): Promise<number> {
  const client = createArchiveClient(url, tls, Date.now)
  const open = async () => ReplicationConnection.open(connect({ host: '127.0.0.1', port }), 'postgres', 'bench')
  const backups = createBackups({ client, connect: open, now: Date.now, log: () => {} })
  await backups.begin(id, new AbortController().signal)
  while (backups.job(id)?.state === 'running') await new Promise(resolve => setTimeout(resolve, 10))
  const job = backups.job(id)
  client.close()
  if (job?.state !== 'completed') throw new Error(`the backup is not complete: ${JSON.stringify(job)}`)
  return job.bytes
}

async function restore(): Promise<number> {
  const source: RecoverySource = {
    ...{ archive: url, id: databaseId, incarnation: 1, backup: id },
    target: { kind: 'backup' },
  }
  mkdirSync(target)
  const reader = openArchiveReader(source, { tls })
  await extractBase(reader, source, target)
  reader.close()
  return 0
}

const began = performance.now()
const bytes = options.work === 'backup' ? await backup() : await restore()
const { user, system } = process.cpuUsage()
const memory = process.resourceUsage().maxRSS / 1024
console.log(
  JSON.stringify({ bytes, seconds: (performance.now() - began) / 1000, processor: (user + system) / 1e6, memory }),
)
