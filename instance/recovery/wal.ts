/**
 * Provides WAL to a recovering Postgres. Its `restore_command` is a few lines of shell: it names the requested file and
 * waits. This process fetches the file, and several following ones, so that replay seldom waits for the archive.
 *
 *     want/<file>   written by the command
 *     have/<file>   the complete file: the command moves it
 *     none/<file>   the archive does not have it
 *     failed        the archive failed: the command ends recovery (a code above 125)
 *
 * At the end of the archive the last segment is built from its tail: the archived bytes of it, and zeros.
 */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { SegmentChain } from './chain.ts'
import type { ArchiveReader } from './client.ts'

const segmentBytes = 16 * 1024 * 1024
/** The number of segments that are fetched ahead of the requested segment. */
const segmentsAhead = 6
/**
 * The number of parallel fetches. A fetch needs memory for a segment, both compressed and not, and Postgres needs
 * memory as well.
 */
const fetchesAhead = 2
const pollMs = 10

const segmentName = /^[0-9A-F]{24}$/

/**
 * `$1`: the file, `$2`: the path where the script writes it. The script ends with this process, whose id is inserted.
 */
const script = (directory: string, pid: number): string => `cd '${directory}' || exit 200
case $2 in /*) ;; *) exit 200 ;; esac
: > "want/$1"
while :; do
  if [ -f "have/$1" ]; then rm -f "want/$1" && mv "have/$1" "$2" && exit 0; exit 200; fi
  if [ -f "none/$1" ]; then rm -f "want/$1" "none/$1"; exit 1; fi
  if [ -f failed ]; then exit 200; fi
  kill -0 ${pid} 2>/dev/null || exit 200
  sleep 0.02
done
`

const sha256Of = (content: Buffer): Buffer => createHash('sha256').update(content).digest()

/** The next segment on the same timeline. */
export function nextSegment(name: string): string {
  const timeline = name.slice(0, 8)
  const perLog = 2 ** 32 / segmentBytes
  const number = Number.parseInt(name.slice(8, 16), 16) * perLog + Number.parseInt(name.slice(16), 16) + 1
  const digits = (value: number) => value.toString(16).toUpperCase().padStart(8, '0')
  return `${timeline}${digits(Math.floor(number / perLog))}${digits(number % perLog)}`
}

/** The start position of a segment. */
export const startOfSegment = (name: string): bigint =>
  (BigInt(`0x${name.slice(8, 16)}`) << 32n) + BigInt(`0x${name.slice(16)}`) * BigInt(segmentBytes)

/**
 * Node frees buffers late: unused segments took twice the memory of those in use, and Postgres needs this memory.
 * Loaded only for a recovery, since every start of a database loads this file.
 */
function garbageCollector(): () => void {
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc')
}

export class WalSupply {
  readonly #collectGarbage = garbageCollector()
  readonly #directory: string
  readonly #reader: ArchiveReader
  /** Segments that are being fetched before they are requested. */
  readonly #fetching = new Map<string, Promise<'have' | 'none'>>()
  /** The next segment to fetch ahead; undefined before the first request and at the end of the archive. */
  #next: string | undefined
  /** The segment that was built from its tail. */
  #partial: string | undefined
  readonly #chain: SegmentChain
  /** The first segment that another server archived. It is treated as missing. */
  foreign: string | undefined
  #isStopped = false
  #running: Promise<void> = Promise.resolve()
  /** The reason why the supply of WAL ended. */
  fault: unknown
  /**
   * The end of the archive's WAL, and the first segment that the archive lacked. Known once replay has requested it.
   */
  end = 0n
  missing: string | undefined

  /** @param ofBackup SHA-256 of the segments in the base backup */
  constructor(directory: string, reader: ArchiveReader, ofBackup?: ReadonlyMap<string, Buffer>) {
    this.#chain = new SegmentChain(ofBackup)
    this.#directory = directory
    this.#reader = reader
    rmSync(directory, { recursive: true, force: true })
    mkdirSync(directory, { mode: 0o700 })
    for (const name of ['want', 'have', 'none']) mkdirSync(this.#at(name), { mode: 0o700 })
    writeFileSync(this.#at('fetch'), script(directory, process.pid), { mode: 0o600 })
  }

  /** The value of `restore_command`. Postgres runs it in the data directory, and %p is relative to this directory. */
  get command(): string {
    return `sh '${this.#at('fetch')}' %f "$PWD/%p"`
  }

  start(): void {
    this.#running = this.#run().catch((error: unknown) => {
      this.fault = error
      this.#writeMarker('failed')
    })
  }

  /** Stops after the running fetches. */
  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#running
    await Promise.allSettled(this.#fetching.values())
    rmSync(this.#directory, { recursive: true, force: true })
  }

  readonly #at = (...names: string[]): string => join(this.#directory, ...names)
  readonly #writeMarker = (...names: string[]): void => writeFileSync(this.#at(...names), '')

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      for (const file of readdirSync(this.#at('want'))) await this.#deliver(file)
      this.#fetchAhead()
      await delay(pollMs)
    }
  }

  async #deliver(file: string): Promise<void> {
    if (existsSync(this.#at('have', file)) || existsSync(this.#at('none', file))) return
    if ((await (this.#fetching.get(file) ?? this.#fetch(file))) === 'have') return this.#follow(file)
    if (segmentName.test(file) && (await this.#fetchEnd(file))) return
    if (segmentName.test(file) && (this.#partial === undefined || nextSegment(this.#partial) !== file)) {
      this.missing = file
      this.end = startOfSegment(file)
    }
    this.#writeMarker('none', file)
  }

  /** Replay continues with the next segment. At the end of recovery, Postgres requests the last segment once more. */
  #follow(file: string): void {
    if (!segmentName.test(file) || (this.#next !== undefined && file < this.#next)) return
    this.#next = nextSegment(file)
  }

  #fetchAhead(): void {
    const fetched = readdirSync(this.#at('have')).length
    const mayFetch = () => this.#fetching.size < Math.min(fetchesAhead, segmentsAhead - fetched)
    while (this.#next !== undefined && mayFetch()) {
      const segment = this.#next
      this.#next = nextSegment(segment)
      const fetched = this.#fetch(segment)
      this.#fetching.set(segment, fetched)
      void fetched.then(
        found => {
          this.#fetching.delete(segment)
          if (found === 'none') this.#next = undefined
        },
        // The error is reported if Postgres requests the segment.
        () => {},
      )
    }
  }

  async #fetch(file: string): Promise<'have' | 'none'> {
    const found = await this.#reader.readWal(`wal/${file}`)
    if (found === undefined) return 'none'
    const { content, salt, sha256 = sha256Of(content) } = found
    if (segmentName.test(file) && !(await this.#isAccepted(file, { sha256, salt }))) return 'none'
    this.#write(file, content)
    setImmediate(this.#collectGarbage)
    return 'have'
  }

  /** Whether the segment follows the previous segment. Waits for the previous segment if it is being fetched. */
  async #isAccepted(file: string, archived: Parameters<SegmentChain['accepts']>[1]): Promise<boolean> {
    const previous = [...this.#fetching].find(([name]) => nextSegment(name) === file)
    await previous?.[1].catch(() => {})
    const isAccepted = this.#chain.accepts(file, archived)
    if (!isAccepted) this.foreign ??= file
    return isAccepted
  }

  /**
   * Reads the current end of the archive, not the end that was fetched ahead. @returns whether the archive has a part
   * of the segment
   */
  async #fetchEnd(segment: string): Promise<boolean> {
    const tail = (await this.#reader.readWal(`tail/${segment}`, this.#chain.before(segment)))?.content
    // The segment may have been archived completely since, and its tail deleted.
    if ((await this.#fetch(segment)) === 'have') {
      this.#follow(segment)
      return true
    }
    if (tail === undefined || tail.length === 0) return false
    const segmentContent = Buffer.alloc(segmentBytes)
    tail.copy(segmentContent)
    if (tail.length === segmentBytes) this.#chain.add(segment, sha256Of(segmentContent))
    this.#write(segment, segmentContent)
    this.#partial = segment
    this.missing = segment
    this.end = startOfSegment(segment) + BigInt(Math.min(tail.length, segmentBytes))
    return true
  }

  /** Postgres must never see an incomplete file. */
  #write(file: string, content: Buffer): void {
    writeFileSync(this.#at(`${file}.partial`), content, { mode: 0o600 })
    renameSync(this.#at(`${file}.partial`), this.#at('have', file))
  }
}
