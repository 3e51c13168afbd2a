/**
 * The archiving state, which the agent reports to the operator. `archiveSegments` and `receiveTail` update it. No side
 * effects except log lines.
 */
import { faultOf } from './client.ts'
import type { ArchiveStatus } from './contract.ts'
import { isSegment, lsnOf, segmentStart } from './wal.ts'

type Part = 'segments' | 'tail'
type Fault = { code: string; message: string }

/** The number of failed attempts after which a fault is reported. A restart of the archive causes fewer. */
const faultsToReport = 3
/**
 * A fault that lasts this long is reported before the third attempt. So a silent archive is reported within a minute.
 */
const faultToReportMs = 15_000

/** A time of a monotonic clock, in ms. */
type Stamp = number

export class ArchiveState {
  readonly #now: () => number
  readonly #elapsed: () => Stamp
  readonly #log: (line: string) => void
  readonly #faults = new Map<Part, { fault: Fault; count: number; since: Stamp; isReported: boolean }>()
  readonly #waiting = new Map<string, Stamp>()
  readonly #startedAt: Stamp
  #since: Stamp
  #last: ArchiveStatus['state'] = 'archiving'
  #lastFile: { name: string; at: Stamp } | undefined
  /** The range of WAL, without gaps, that is archived as pieces. */
  #tail: { from: bigint; to: bigint; timeline: number } | undefined
  #written: bigint | undefined
  #archivedAt: Stamp | undefined
  #segmentBytes = 16n << 20n

  /** @param elapsed a monotonic clock in ms: setting the system clock does not change durations */
  constructor(now: () => number, log: (line: string) => void, elapsed = () => performance.now()) {
    this.#now = now
    this.#elapsed = elapsed
    this.#log = log
    this.#startedAt = elapsed()
    this.#since = elapsed()
  }

  failed(part: Part, error: unknown): void {
    const fault = faultOf(error)
    const before = this.#faults.get(part)
    const count = (before?.count ?? 0) + 1
    const since = before?.since ?? this.#elapsed()
    const isReported = count >= faultsToReport || this.#elapsed() - since >= faultToReportMs
    this.#faults.set(part, { fault, count, since, isReported })
    // A fault with another code is logged too: the cause has changed.
    const isNew = before === undefined || before.isReported !== isReported || before.fault.code !== fault.code
    if (isNew) this.#log(`archiving: ${part}: ${fault.code}: ${fault.message}`)
    this.#settle()
  }

  /**
   * Why the archive refuses segments: it has a segment of another server under this identity. The agent must not send
   * later segments or pieces.
   */
  get refused(): string | undefined {
    const fault = this.#faults.get('segments')?.fault
    return fault?.code === 'conflict' ? fault.message : undefined
  }

  /** Whether the archive has accepted a file since the agent started. */
  get hasArchived(): boolean {
    return this.#lastFile !== undefined
  }

  succeeded(part: Part): void {
    const before = this.#faults.get(part)
    this.#faults.delete(part)
    if (before?.isReported === true) this.#log(`archiving: ${part}: works again`)
    this.#settle()
  }

  /** Replaces the list of files that are ready and not archived. */
  waiting(names: readonly string[]): void {
    for (const name of this.#waiting.keys()) if (!names.includes(name)) this.#waiting.delete(name)
    for (const name of names) if (!this.#waiting.has(name)) this.#waiting.set(name, this.#elapsed())
  }

  archivedFile(name: string): void {
    this.#waiting.delete(name)
    this.#lastFile = { name, at: this.#elapsed() }
    this.#cover()
  }

  /** A connection starts to stream at `from`. */
  streaming(from: bigint, segmentBytes: bigint, timeline: number): void {
    this.#segmentBytes = segmentBytes
    const before = this.#tail
    const continues = before !== undefined && before.timeline === timeline && before.to === from
    // Earlier pieces have stored the first bytes of the segment in the archive.
    if (!continues) this.#tail = { from: from - (from % segmentBytes), to: from, timeline }
  }

  streamed(to: bigint): void {
    if (this.#tail !== undefined) this.#tail = { ...this.#tail, to }
    this.#cover()
  }

  written(to: bigint): void {
    this.#written = to
    this.#cover()
  }

  status(): ArchiveStatus {
    const { state, fault } = this.#state()
    const archived = this.#archived()
    const waitingSince = [...this.#waiting.values()]
    const written = this.#written
    const lag = archived === undefined || written === undefined ? null : Number(written - archived)
    const now = this.#now()
    const timeOf = (stamp: Stamp) => Math.round(now - (this.#elapsed() - stamp))
    return {
      state,
      since: timeOf(this.#since),
      now,
      startedAt: timeOf(this.#startedAt),
      error: fault ?? null,
      lastFile: this.#lastFile?.name ?? null,
      lastArchivedAt: this.#lastFile === undefined ? null : timeOf(this.#lastFile.at),
      waitingFiles: this.#waiting.size,
      oldestWaitingSince: waitingSince.length === 0 ? null : timeOf(Math.min(...waitingSince)),
      archived: archived === undefined ? null : lsnOf(archived),
      archivedAt: this.#archivedAt === undefined ? null : timeOf(this.#archivedAt),
      written: written === undefined ? null : lsnOf(written),
      lagBytes: lag === null ? null : Math.max(0, lag),
      timeline: this.#tail?.timeline ?? null,
    }
  }

  #state(): { state: ArchiveStatus['state']; fault?: Fault } {
    const all = [...this.#faults.values()]
    const conflict = all.find(({ fault }) => fault.code === 'conflict')
    if (conflict !== undefined) return { state: 'conflict', fault: conflict.fault }
    const failing = all.find(({ isReported }) => isReported)
    return failing === undefined ? { state: 'archiving' } : { state: 'failing', fault: failing.fault }
  }

  #settle(): void {
    const { state } = this.#state()
    if (state !== this.#last) this.#since = this.#elapsed()
    this.#last = state
  }

  /** The start of the first waiting segment that pieces do not cover. Without such a segment: the end of the pieces. */
  #archived(): bigint | undefined {
    const tail = this.#tail
    if (tail === undefined) return undefined
    const starts = [...this.#waiting.keys()].filter(isSegment).map(name => segmentStart(name, this.#segmentBytes))
    const uncovered = starts.filter(start => start < tail.from)
    return uncovered.length === 0 ? tail.to : uncovered.reduce((least, start) => (start < least ? start : least))
  }

  #cover(): void {
    const archived = this.#archived()
    if (archived !== undefined && this.#written !== undefined && archived >= this.#written)
      this.#archivedAt = this.#elapsed()
  }
}
