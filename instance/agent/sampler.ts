/**
 * Takes a sample of Postgres and its volume every 30 seconds. If Postgres does not answer, `up` is 0 and its values are
 * missing. If the volume does not answer, the volume's values are missing. The agent runs one query at a time, with a
 * time limit.
 *
 * The agent queries an idle Postgres rarely. Samples between two queries repeat the last values (rest.ts).
 */
import { stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { requireOpened } from '../copy.ts'
import { isRecord } from '../record.ts'
import { type Certificates, nameIn, readCertificates } from './certificates.ts'
import { isConnected } from './connected.ts'
import { sampleEveryMs } from './contract.ts'
import { type History, valuesIn } from './history.ts'
import { query } from './postgres.ts'
import { monitoredFrom, monitorRole, sampleQuery, sizeQuery } from './query.ts'
import { type Answered, answered, isUndisturbed } from './rest.ts'

type SamplerOptions = {
  /** Postgres's address. */
  host: string
  port: number
  data: string
  tls: string
  history: History
  now: () => number
  log: (line: string) => void
  /** For tests. */
  postgres?: { query: typeof query; isConnected: typeof isConnected }
  readSpace?: typeof spaceOf
  readWrittenAt?: typeof writtenAtOf
}

const timeoutMs = 5_000
const volumeMs = 2_000
/** The interval between measurements of the database's size, because measuring many files takes long. */
const sizeMs = 5 * 60_000

const recordIn = (json: string | null): Record<string, unknown> => {
  const read: unknown = JSON.parse(json ?? '{}')
  return isRecord(read) ? read : {}
}

async function spaceOf(data: string): Promise<Record<string, number>> {
  const { blocks, bfree, bavail, bsize } = await statfs(data)
  const used = (blocks - bfree) * bsize
  // Blocks reserved for the superuser are not free space: a volume is full when Postgres cannot write.
  return { volume_used_bytes: used, volume_size_bytes: used + bavail * bsize }
}

/** Only names of WAL files are accepted, so that a name from Postgres cannot lead to another path. */
const isWalFile = /^[0-9A-F]{24}$/
const walPath = (data: string, name: unknown): string | undefined =>
  typeof name === 'string' && isWalFile.test(name) ? join(data, 'pgdata', 'pg_wal', name) : undefined
const writtenAtOf = async (path: string): Promise<number | undefined> => (await stat(path)).mtimeMs

/**
 * Limits the time of a read from the volume, because a hanging disk does not answer. After this time, returns
 * `otherwise`. The next read starts only after the disk has answered.
 */
function unlessItHangs<T>(read: (path: string) => Promise<T>, otherwise: T): (path: string) => Promise<T> {
  let underWay = false
  return async path => {
    if (underWay) return otherwise
    underWay = true
    const late = Promise.withResolvers<T>()
    const timer = setTimeout(() => late.resolve(otherwise), volumeMs)
    const found = read(path)
      .catch(() => otherwise)
      .finally(() => {
        underWay = false
      })
    return Promise.race([found, late.promise]).finally(() => clearTimeout(timer))
  }
}

export function createSampler(options: SamplerOptions) {
  const { host, port, data, tls, history, now, log, postgres: to = { query, isConnected } } = options
  const spaceIn = unlessItHangs<Record<string, number>>(options.readSpace ?? spaceOf, {})
  const writtenIn = unlessItHangs<number | undefined>(options.readWrittenAt ?? writtenAtOf, undefined)
  let size: { at: number; bytes: number | null } | undefined
  let last: Answered | undefined
  let lastLogged = ''
  const logOnce = (line: string) => {
    if (line !== lastLogged && line !== '') log(line)
    lastLogged = line
  }

  async function postgres(): Promise<Record<string, unknown>> {
    const at = now()
    const before = last
    const wal = walPath(data, before?.values.wal_file)
    // Read before the query, so that later writes count as activity.
    const writtenAt = wal === undefined ? undefined : await writtenIn(wal)
    if (before !== undefined && isUndisturbed(before, at, writtenAt) && !to.isConnected(host, port))
      return before.values
    last = undefined
    requireOpened(data)
    const values = await valuesNow(at, readCertificates(tls))
    const isSameFile = values.wal_file === before?.values.wal_file
    last = answered(before, { at, values, writtenAt: isSameFile ? writtenAt : undefined })
    return values
  }

  async function valuesNow(at: number, { cert, ca, monitor }: Certificates): Promise<Record<string, unknown>> {
    if (monitor === undefined) throw new Error('there is no login certificate yet')
    const login = { host, port, user: monitorRole, database: monitoredFrom, ...monitor, ca, serverName: nameIn(cert) }
    const isSizeDue = size === undefined || at - size.at >= sizeMs
    const [found = null, bytes] = await to.query(login, [sampleQuery, ...(isSizeDue ? [sizeQuery] : [])], timeoutMs)
    if (bytes !== undefined) size = { at, bytes: bytes === null ? null : Number(bytes) }
    return { ...recordIn(found), database_bytes: size?.bytes ?? null, up: 1 }
  }

  /**
   * Takes a sample. Never fails. Returns false if Postgres did not answer; such a sample is stored only if
   * `keepsFailures` is true.
   */
  return async function sample(keepsFailures: boolean): Promise<boolean> {
    const at = now()
    const space = await spaceIn(data)
    let values: Record<string, unknown> | undefined
    try {
      values = await postgres()
      logOnce('')
    } catch (error) {
      if (keepsFailures) logOnce(`no sample: ${error instanceof Error ? error.message : error}`)
    }
    if (values !== undefined || keepsFailures) history.add({ at, values: valuesIn({ up: 0, ...values, ...space }) })
    return values !== undefined
  }
}

/**
 * Postgres starts at the same time as the agent. In its first 60 s, the agent stores no failures, and tries at shorter
 * intervals to take the first sample.
 */
const startingMs = 60_000
/** The interval until the first sample, for at most 60 s. A starting Postgres logs each attempt. */
const startingEveryMs = 5_000

/**
 * The agents of one machine take their samples in groups. If one process runs many agents, waking up the process costs
 * more than a sample.
 */
const groupMs = 5_000

/** An instance's offset within the 30 seconds, from its UUID. */
export const phaseOf = (id: string): number => (Number.parseInt(id.slice(-6), 16) % (sampleEveryMs / groupMs)) * groupMs

/** Takes samples one at a time, at the instance's offset, until the caller calls the returned function. */
export function sampleRegularly(
  sample: (keepsFailures: boolean) => Promise<boolean>,
  { now, phaseMs }: { now: () => number; phaseMs: number },
): () => void {
  const startingUntil = now() + startingMs
  let timer: NodeJS.Timeout | undefined
  let stopped = false
  let hasOne = false
  const run = async () => {
    const isStarting = !hasOne && now() < startingUntil
    hasOne = (await sample(!isStarting)) || hasOne
    if (stopped) return
    const waitMs = hasOne || !isStarting ? sampleEveryMs - ((now() + phaseMs) % sampleEveryMs) : startingEveryMs
    timer = setTimeout(() => void run(), waitMs)
  }
  void run()
  return () => {
    stopped = true
    clearTimeout(timer)
  }
}
