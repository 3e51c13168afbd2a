/**
 * Takes a base backup as a background job. The agent receives it from Postgres, compresses it in parts of 8 MiB, sends
 * the parts to the archive, and then sends the record. While one part is sent, the next part is compressed. Each
 * request is retried until it succeeds, so a restart of the archive only causes a pause.
 */
import { type BaseBackupEvent, baseBackup, type WalPosition } from '../replication/base-backup.ts'
import type { ReplicationConnection } from '../replication/connection.ts'
import { type ArchiveClient, faultOf, patiently } from './client.ts'
import { compressedPart, plainOf, plainPart } from './compression.ts'
import type { BackupJob } from './contract.ts'
import { PartSender, type Stored, storedOf } from './parts.ts'
import { type Content, contentOf } from './transport.ts'

type BackupOptions = {
  client: ArchiveClient
  connect: (applicationName: string) => Promise<ReplicationConnection>
  now: () => number
  log: (line: string) => void
}

const partBytes = 8 * 1024 * 1024
/** Enough for a database of about 500,000 files. */
const mostManifestBytes = 64 * 1024 * 1024
/** The most jobs to remember; a running job is always remembered. */
const mostJobs = 8

type Running = { job: BackupJob; ended: Promise<void>; end: AbortController }

export type Backups = {
  /**
   * `begun`: the backup runs now. `known`: it runs already, or is complete. `busy`: another backup runs.
   * @throws ArchiveFault if the archive does not answer
   */
  begin(id: string, signal: AbortSignal): Promise<'begun' | 'known' | 'busy'>
  job(id: string): BackupJob | undefined
  /** Stops the job. The parts that the archive has stored remain. */
  end(id: string): Promise<void>
  stop(): Promise<void>
}

export function createBackups(options: BackupOptions): Backups {
  const jobs = new Map<string, Running>()
  const isRunning = ({ job }: Running) => job.state === 'running'
  let isBeginning = false
  const run = (id: string): void => {
    const end = new AbortController()
    const running: Running = {
      job: { state: 'running', bytes: 0, estimate: 0, progressAt: options.now() },
      ended: Promise.resolve(),
      end,
    }
    const progress = (bytes: number, estimate: number) => {
      running.job = { state: 'running', bytes, estimate, progressAt: options.now() }
    }
    running.ended = takeBackup(options, id, progress, end.signal).then(
      job => {
        running.job = job
        options.log(`backup ${id}: completed`)
      },
      (error: unknown) => {
        const { code, message } = faultOf(error)
        running.job = { state: 'failed', error: message }
        options.log(`backup ${id}: failed: ${code}: ${message}`)
      },
    )
    jobs.delete(id)
    jobs.set(id, running)
    for (const [known, one] of jobs) if (jobs.size > mostJobs && !isRunning(one)) jobs.delete(known)
  }
  return {
    async begin(id, signal) {
      const known = jobs.get(id)
      if (known !== undefined && known.job.state !== 'failed') return 'known'
      if (isBeginning || [...jobs.values()].some(isRunning)) return 'busy'
      isBeginning = true
      try {
        const completed = await completedInArchive(options.client, id, signal)
        if (completed !== undefined) {
          jobs.set(id, { job: completed, ended: Promise.resolve(), end: new AbortController() })
          return 'known'
        }
        run(id)
        return 'begun'
      } finally {
        isBeginning = false
      }
    },
    job: id => jobs.get(id)?.job,
    async end(id) {
      const running = jobs.get(id)
      running?.end.abort(new Error('the backup was stopped'))
      await running?.ended
    },
    async stop() {
      for (const { end } of jobs.values()) end.abort(new Error('the agent is stopping'))
      await Promise.all([...jobs.values()].map(({ ended }) => ended))
    },
  }
}

type Record = {
  version: 1
  start: WalPosition
  end: WalPosition
  startedAt: string
  endedAt: string
  parts: Stored[]
  manifest: Stored
  bytes: number
}

const completedJob = (record: Record, answer: Buffer): BackupJob => {
  const { start, end, startedAt, endedAt, bytes } = record
  const { storedBytes } = Object(JSON.parse(answer.toString('utf8')))
  return { state: 'completed', start, end, startedAt, endedAt, bytes, storedBytes: Number(storedBytes ?? 0) }
}

/** Asks the archive for a complete backup: a restarted agent does not know earlier jobs. */
async function completedInArchive(
  client: ArchiveClient,
  id: string,
  signal: AbortSignal,
): Promise<BackupJob | undefined> {
  const { status, body } = await client.send('GET', `backups/${id}/record`, { signal })
  if (status === 404) return undefined
  // Sending the same record again changes nothing, and returns the size in the store.
  const again = await client.send('PUT', `backups/${id}/record`, { content: contentOf(body), signal })
  // The archive has checked the record before it stored it.
  return completedJob(JSON.parse(body.toString('utf8')) as Record, again.body)
}

async function takeBackup(
  options: BackupOptions,
  id: string,
  progress: (bytes: number, estimate: number) => void,
  signal: AbortSignal,
): Promise<BackupJob> {
  const { client, connect, now, log } = options
  const failed = (error: unknown) => log(`backup ${id}: ${faultOf(error).code}: ${faultOf(error).message}`)
  // During an upgrade, an archive of an earlier version may receive the next request.
  const acceptable = async (content: Content) =>
    content.compressed === undefined || client.acceptsZstd() ? content : plainOf(content)
  const send = (method: 'PUT' | 'DELETE', path: string, content?: Content) =>
    patiently(
      async () =>
        client.send(method, `backups/${id}${path}`, {
          ...(content && { content: await acceptable(content) }),
          isSlow: method === 'DELETE' || path === '/record',
          signal,
        }),
      {
        signal,
        failed,
      },
    )
  // Parts of an interrupted attempt have other content: the archive would refuse the new parts.
  await send('DELETE', '')
  const connection = await connect('espalier-backup')
  const close = () => connection.close()
  signal.addEventListener('abort', close, { once: true })
  const startedAt = new Date(now()).toISOString()
  // The archive has answered the DELETE, so the client knows whether the archive accepts zstd.
  const begin = client.acceptsZstd() ? compressedPart : plainPart
  const parts = new PartSender(partBytes, begin, (number, content) => send('PUT', `/parts/${number}`, content))
  try {
    const taken = await read(baseBackup(connection, { label: `espalier ${id}` }), parts, progress)
    signal.throwIfAborted()
    const stored = await parts.end()
    const manifest = contentOf(taken.manifest)
    await send('PUT', '/manifest', manifest)
    const record: Record = {
      version: 1,
      start: taken.start,
      end: taken.end,
      startedAt,
      endedAt: new Date(now()).toISOString(),
      parts: stored,
      manifest: storedOf(manifest),
      bytes: parts.bytes,
    }
    const { body } = await send('PUT', '/record', contentOf(Buffer.from(JSON.stringify(record))))
    return completedJob(record, body)
  } catch (error) {
    signal.throwIfAborted()
    throw error
  } finally {
    signal.removeEventListener('abort', close)
    connection.close()
    await parts.settle()
  }
}

type Taken = { start: WalPosition; end: WalPosition; manifest: Buffer }

async function read(
  events: AsyncIterable<BaseBackupEvent>,
  parts: PartSender,
  progress: (bytes: number, estimate: number) => void,
): Promise<Taken> {
  const manifest: Buffer[] = []
  let manifestBytes = 0
  let [start, end]: (WalPosition | undefined)[] = []
  let estimate = 0
  let isManifest = false
  for await (const event of events) {
    if (event.kind === 'started') [start, estimate] = [event.at, event.bytes]
    else if (event.kind === 'ended') end = event.at
    else if (event.kind === 'manifest') isManifest = true
    else if (event.kind === 'archive' && event.tablespace !== undefined)
      throw new Error(
        `the server has a tablespace at ${event.tablespace}: backups of servers with tablespaces are not supported`,
      )
    else if (event.kind === 'data' && isManifest) {
      // A copy: the event's bytes are a part of the socket's buffer, and would keep all of it in memory.
      manifest.push(Buffer.from(event.bytes))
      manifestBytes += event.bytes.length
      if (manifestBytes > mostManifestBytes) throw new Error('the manifest of the backup has more than 64 MiB')
    } else if (event.kind === 'data' && (await parts.add(event.bytes))) progress(parts.bytes, estimate)
  }
  if (start === undefined || end === undefined) throw new Error('Postgres ended the backup early')
  return { start, end, manifest: Buffer.concat(manifest) }
}
