/**
 * Receives WAL while Postgres writes it, by streaming replication without a slot. Sends it to the archive as pieces of
 * a segment: after half a second, at 2 MiB, or at the end of the segment. A stream starts at the first byte of a
 * segment. Pieces name their stream, so that the archive never joins pieces of two servers. At most two pieces are in
 * memory; then the receiver stops reading. If this takes a minute, Postgres's WAL sender closes the connection. The
 * receiver continues at its position, or at the current segment if Postgres has removed the segment of that position.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { PostgresError } from '../protocol/messages.ts'
import { type ReplicationConnection, statusUpdate } from '../replication/connection.ts'
import { type ArchiveClient, patiently, pauseMs } from './client.ts'
import type { Digests } from './digests.ts'
import { segmentBefore } from './predecessor.ts'
import type { ArchiveState } from './state.ts'
import { ArchiveFault, contentOf } from './transport.ts'
import { bytesOfLsn, bytesOfSetting, hex, lsnOf, segmentName } from './wal.ts'

type ReceiverOptions = {
  client: ArchiveClient
  state: ArchiveState
  /** Logs in for replication. */
  connect: (applicationName: string) => Promise<ReplicationConnection>
  digests: Digests
  signal: AbortSignal
  now: () => number
}

const pieceBytes = 2 * 1024 * 1024
const delayMs = 500
/** How often the receiver reports its position to Postgres, and requests the end of WAL. */
const statusMs = 10_000
/** A receiver that is further behind skips the missing WAL: `archiveSegments` archives it. */
const segmentsBehind = 3n
/** SQLSTATE undefined_file: Postgres has removed the segment. */
const removedCode = '58P01'

/** The end of the archived pieces, and their stream. `stream`: undefined for an archive of an earlier version. */
type Position = { timeline: number; at: bigint; stream: string | undefined }
type TimelinePosition = Omit<Position, 'stream'>

/** Runs until `signal`. Never fails. */
export async function receiveTail(options: ReceiverOptions): Promise<void> {
  const { signal, state, now } = options
  let position: Position | undefined
  for (let attempt = 1; !signal.aborted; attempt++) {
    const began = now()
    try {
      await stream(options, position, reached => {
        position = reached
      })
      attempt = 0
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof PostgresError && error.code === removedCode) position = undefined
      if (now() - began > statusMs) attempt = 1
      if (error instanceof Behind) {
        position = undefined
        continue
      }
      state.failed('tail', error)
    }
    await delay(pauseMs(Math.min(attempt + 3, 8)), undefined, { signal }).catch(() => {})
  }
}

class Behind extends Error {}

/**
 * Receives on one connection until the timeline ends, or until Postgres or the archive fails. @throws PostgresError,
 * ArchiveFault, Error
 */
async function stream(
  options: ReceiverOptions,
  last: Position | undefined,
  reached: (position: Position) => void,
): Promise<void> {
  const { connect, signal, state } = options
  refuseConflict(state)
  const connection = await connect('espalier-archive')
  const close = () => connection.close()
  signal.addEventListener('abort', close, { once: true })
  let sender: PieceSender | undefined
  let status: NodeJS.Timeout | undefined
  try {
    const [identity] = await connection.query('IDENTIFY_SYSTEM')
    const [timeline, end] = [Number(identity?.[1]), bytesOfLsn(identity?.[2] ?? '0/0')]
    const [size] = await connection.query('SHOW wal_segment_size')
    const segmentBytes = bytesOfSetting(size?.[0] ?? '')
    const continues = last?.timeline === timeline && end - last.at < segmentsBehind * segmentBytes && end >= last.at
    const from = { timeline, at: end }
    const { at, stream: name } = continues ? last : await begin(options, from, segmentBytes)
    if (!continues) await refuseSegment(options, connection, from, segmentBytes)
    state.streaming(at, segmentBytes, timeline)
    connection.send(`START_REPLICATION PHYSICAL ${lsnOf(at)} TIMELINE ${timeline}`)
    const { type } = await connection.next()
    if (type !== 'W') throw new Error(`Postgres did not start the stream, but sent a message ${JSON.stringify(type)}`)
    const pieces = new PieceSender(options, { timeline, at, stream: name, segmentBytes }, (to: bigint) => {
      reached({ timeline, at: to, stream: name })
      state.streamed(to)
      state.succeeded('tail')
    })
    sender = pieces
    pieces.onFault = close
    status = setInterval(() => connection.copy(statusUpdate(pieces.sent)), statusMs)
    connection.copy(statusUpdate(at))
    await receive(connection, pieces, state, segmentBytes)
  } catch (error) {
    throw sender?.fault ?? error
  } finally {
    clearInterval(status)
    signal.removeEventListener('abort', close)
    connection.close()
    await sender?.stop()
  }
}

/**
 * The start of a new stream: the beginning of the current segment. For an archive of an earlier version: the end of the
 * segment's archived pieces.
 */
async function begin(
  { client, signal, state }: ReceiverOptions,
  { timeline, at: end }: TimelinePosition,
  segmentBytes: bigint,
): Promise<Omit<Position, 'timeline'>> {
  const name = segmentName(timeline, end, segmentBytes)
  const start = end - (end % segmentBytes)
  const failed = (error: unknown) => state.failed('tail', error)
  const { headers } = await patiently(() => client.send('HEAD', `tail/${name}`, { signal }), { signal, failed })
  if (client.acceptsStreams()) return { at: start, stream: randomBytes(8).toString('hex') }
  const at = start + BigInt(String(headers['espalier-length'] ?? 0))
  // The archive has more than Postgres has flushed: the volume lost writes. From the start, the archive compares new
  // writes.
  return { at: at > end ? start : at, stream: undefined }
}

/** @throws ArchiveFault `conflict` */
function refuseConflict({ refused }: ArchiveState): void {
  if (refused !== undefined) throw new ArchiveFault('conflict', refused)
}

/**
 * Fails if the archive has a complete segment that Postgres is still writing. That segment is from another server, or
 * from this server before its volume was reset. A restore would read the complete segment, and no piece of the stream.
 * @throws ArchiveFault `conflict`
 */
async function refuseSegment(
  { client, signal }: ReceiverOptions,
  connection: ReplicationConnection,
  { timeline, at }: TimelinePosition,
  segmentBytes: bigint,
): Promise<void> {
  const name = segmentName(timeline, at, segmentBytes)
  if ((await client.send('HEAD', `wal/${name}`, { signal })).status === 404) return
  const [now] = await connection.query('IDENTIFY_SYSTEM')
  // Postgres has finished the segment meanwhile.
  if (segmentName(Number(now?.[1]), bytesOfLsn(now?.[2] ?? '0/0'), segmentBytes) !== name)
    throw new Error(`${name} was finished before it was streamed`)
  throw new ArchiveFault('conflict', `the archive has a complete ${name}, which Postgres is still writing`)
}

async function receive(
  connection: ReplicationConnection,
  pieces: PieceSender,
  state: ArchiveState,
  segmentBytes: bigint,
): Promise<void> {
  for (;;) {
    const { type, body } = await connection.next()
    // The end of the timeline: the next connection requests the next timeline.
    if (type === 'c') return pieces.flush()
    if (type !== 'd') throw new Error(`Postgres sent a message ${JSON.stringify(type)} within WAL`)
    const kind = String.fromCharCode(body[0] ?? 0)
    if (kind === 'w') {
      const end = body.readBigUInt64BE(9)
      state.written(end)
      if (end - pieces.sent > segmentsBehind * segmentBytes) throw new Behind()
      await pieces.add(body.readBigUInt64BE(1), body.subarray(25))
    } else if (kind === 'k') {
      state.written(body.readBigUInt64BE(1))
      if (body[17] === 1) connection.copy(statusUpdate(pieces.sent, false))
    } else throw new Error('Postgres sent an unknown replication message')
  }
}

/** Sends pieces to the archive. Fills one buffer while the other buffer is sent. */
class PieceSender {
  readonly #options: ReceiverOptions
  readonly #timeline: number
  readonly #stream: string | undefined
  readonly #segmentBytes: bigint
  readonly #reached: (to: bigint) => void
  #buffers = [Buffer.allocUnsafeSlow(pieceBytes), Buffer.allocUnsafeSlow(pieceBytes)]
  #filled = 0
  /** The position of the buffer that is being filled. */
  #start: bigint
  #timer: NodeJS.Timeout | undefined
  #sending: Promise<void> = Promise.resolve()
  #flushing: Promise<void> = Promise.resolve()
  /** The position that the archive has acknowledged. */
  sent: bigint
  fault: unknown
  onFault: () => void = () => {}

  constructor(
    options: ReceiverOptions,
    { timeline, at, stream, segmentBytes }: Position & { segmentBytes: bigint },
    reached: (to: bigint) => void,
  ) {
    this.#options = options
    this.#timeline = timeline
    this.#stream = stream
    this.#segmentBytes = segmentBytes
    this.#reached = reached
    this.#start = at
    this.sent = at
  }

  /** Resolves once the WAL is in a buffer. */
  async add(position: bigint, wal: Buffer): Promise<void> {
    await this.#flushing
    if (position !== this.#start + BigInt(this.#filled)) throw new Error('Postgres skipped some WAL')
    for (let rest = wal; rest.length > 0; ) {
      await this.#flushing
      const inSegment = Number(this.#segmentBytes - (this.#start % this.#segmentBytes))
      const most = Math.min(pieceBytes, inSegment) - this.#filled
      const some = rest.subarray(0, most)
      some.copy(this.#buffers[0] as Buffer, this.#filled) // there are two
      this.#filled += some.length
      rest = rest.subarray(some.length)
      if (some.length === most) await this.flush()
      else this.#timer ??= setTimeout(() => void this.flush(), delayMs)
    }
  }

  /**
   * Resolves once the archive has acknowledged the previous piece, and this piece is being sent. @throws a piece's
   * error
   */
  flush(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#flushing = this.#flushNow()
    // `add` awaits it. A rejection before that would have no handler, and Node would end the process.
    this.#flushing.catch(() => {})
    return this.#flushing
  }

  async #flushNow(): Promise<void> {
    await this.#flushing
    // Then the other buffer is free: the archive has acknowledged the previous piece.
    await this.#sending
    const [start, length, buffer] = [this.#start, this.#filled, this.#buffers[0] as Buffer] // there are two
    if (length === 0) return
    this.#start = start + BigInt(length)
    this.#filled = 0
    this.#buffers.reverse()
    this.#sending = this.#send(start, buffer.subarray(0, length)).catch((error: unknown) => {
      this.fault ??= error
      this.onFault()
      throw error
    })
    this.#sending.catch(() => {})
  }

  /** Resolves once no piece is being sent. */
  async stop(): Promise<void> {
    clearTimeout(this.#timer)
    this.#filled = 0
    await this.#flushing.catch(() => {})
    await this.#sending.catch(() => {})
  }

  async #send(start: bigint, wal: Buffer): Promise<void> {
    const { client, signal, state, digests } = this.#options
    const name = segmentName(this.#timeline, start, this.#segmentBytes)
    const path = `tail/${name}.${hex(start % this.#segmentBytes)}-${hex(wal.length)}`
    const content = contentOf(wal)
    const before = start % this.#segmentBytes === 0n ? segmentBefore(name, this.#segmentBytes) : undefined
    const send = async () => {
      refuseConflict(state)
      // During an upgrade, an archive of an earlier version may receive the next request.
      const stream = this.#stream !== undefined && client.acceptsStreams() ? `.${this.#stream}` : ''
      const predecessor = before === undefined ? undefined : (await digests(before))?.sha256
      return client.send('PUT', `${path}${stream}`, { content, predecessor, signal })
    }
    await patiently(send, { signal, failed: error => state.failed('tail', error) })
    this.sent = start + BigInt(wal.length)
    this.#reached(this.sent)
  }
}
