/**
 * Takes a sample of Postgres and its volume every 30 seconds. A Postgres that does not answer is a sample as well; the disk
 * is told of all the same. One look at a time, and each has its end.
 *
 * A Postgres at rest is asked rarely, and taken to be as it was meanwhile (rest.ts).
 */
import { stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { isClosed } from '../copy.ts'
import { isRecord } from '../record.ts'
import { type Certificates, nameIn, readCertificates } from './certificates.ts'
import { isConnected } from './connected.ts'
import { sampleEveryMs } from './contract.ts'
import { type History, valuesIn } from './history.ts'
import { ask } from './postgres.ts'
import { monitoredFrom, monitorRole, sampleQuery, sizeQuery } from './query.ts'
import { type Answered, answered, isLeftAlone } from './rest.ts'

type SamplerOptions = {
  /** Where Postgres listens. */
  host: string
  port: number
  data: string
  tls: string
  history: History
  now: () => number
  log: (line: string) => void
  /** For tests. */
  postgres?: { ask: typeof ask; isConnected: typeof isConnected }
  readRoom?: typeof roomOf
  readWrittenAt?: typeof writtenAtOf
}

const timeoutMs = 5_000
const volumeMs = 2_000
/** A database of many files takes long to measure. */
const sizeMs = 5 * 60_000

const recordIn = (json: string | null): Record<string, unknown> => {
  const read: unknown = JSON.parse(json ?? '{}')
  return isRecord(read) ? read : {}
}

async function roomOf(data: string): Promise<Record<string, number>> {
  const { blocks, bfree, bavail, bsize } = await statfs(data)
  const used = (blocks - bfree) * bsize
  // What is kept for the super-user is not room: a volume is full when nothing is left for Postgres.
  return { volume_used_bytes: used, volume_size_bytes: used + bavail * bsize }
}

/** A file of WAL by its name, which Postgres says. */
const isWalFile = /^[0-9A-F]{24}$/
const walPath = (data: string, name: unknown): string | undefined =>
  typeof name === 'string' && isWalFile.test(name) ? join(data, 'pgdata', 'pg_wal', name) : undefined
const writtenAtOf = async (path: string): Promise<number | undefined> => (await stat(path)).mtimeMs

/** Reads of the volume. A disk that hangs does not answer: then it is not waited for, nor asked again before it does. */
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
  const { host, port, data, tls, history, now, log, postgres: to = { ask, isConnected } } = options
  const roomIn = unlessItHangs<Record<string, number>>(options.readRoom ?? roomOf, {})
  const writtenIn = unlessItHangs<number | undefined>(options.readWrittenAt ?? writtenAtOf, undefined)
  let size: { at: number; bytes: number | null } | undefined
  let last: Answered | undefined
  let lastSaid = ''
  const say = (line: string) => {
    if (line !== lastSaid && line !== '') log(line)
    lastSaid = line
  }

  async function postgres(): Promise<Record<string, unknown>> {
    const at = now()
    const before = last
    const wal = walPath(data, before?.values.wal_file)
    // Before it is asked: what is written after that is news.
    const writtenAt = wal === undefined ? undefined : await writtenIn(wal)
    if (before !== undefined && isLeftAlone(before, at, writtenAt) && !to.isConnected(host, port)) return before.values
    last = undefined
    // It would refuse, and say so in its user's log.
    if (isClosed(data)) throw new Error('the copy is closed yet')
    const values = await valuesNow(at, readCertificates(tls))
    const isSameFile = values.wal_file === before?.values.wal_file
    last = answered(before, { at, values, writtenAt: isSameFile ? writtenAt : undefined })
    return values
  }

  async function valuesNow(at: number, { cert, ca, monitor }: Certificates): Promise<Record<string, unknown>> {
    if (monitor === undefined) throw new Error('there is no certificate to log in by yet')
    const login = { host, port, user: monitorRole, database: monitoredFrom, ...monitor, ca, serverName: nameIn(cert) }
    const isSizeDue = size === undefined || at - size.at >= sizeMs
    const [found = null, bytes] = await to.ask(login, [sampleQuery, ...(isSizeDue ? [sizeQuery] : [])], timeoutMs)
    if (bytes !== undefined) size = { at, bytes: bytes === null ? null : Number(bytes) }
    return { ...recordIn(found), database_bytes: size?.bytes ?? null, up: 1 }
  }

  /** Takes one. Never fails; false where Postgres did not answer, which is kept as a sample only if it is to be. */
  return async function sample(keepsFailures: boolean): Promise<boolean> {
    const at = now()
    const room = await roomIn(data)
    let values: Record<string, unknown> | undefined
    try {
      values = await postgres()
      say('')
    } catch (error) {
      if (keepsFailures) say(`no sample: ${error instanceof Error ? error.message : error}`)
    }
    if (values !== undefined || keepsFailures) history.add({ at, values: valuesIn({ up: 0, ...values, ...room }) })
    return values !== undefined
  }
}

/** Postgres starts beside the agent: for so long that is no failure, and the first sample is taken as soon as it can be. */
const startingMs = 60_000
/** A Postgres that starts says of each try that it does. */
const startingEveryMs = 5_000

/** Instances of one machine take turns, a few at a time: to wake up costs one process of many agents more than to take a sample. */
const turnMs = 5_000

/** When within its 30 seconds an instance takes its sample, by its UUID. */
export const phaseOf = (id: string): number => (Number.parseInt(id.slice(-6), 16) % (sampleEveryMs / turnMs)) * turnMs

/** Takes samples until the result is called, one at a time, in its turn. */
export function sampleRegularly(
  sample: (keepsFailures: boolean) => Promise<boolean>,
  { now, phaseMs }: { now: () => number; phaseMs: number },
): () => void {
  const patientUntil = now() + startingMs
  let timer: NodeJS.Timeout | undefined
  let stopped = false
  let hasOne = false
  const run = async () => {
    const isStarting = !hasOne && now() < patientUntil
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
