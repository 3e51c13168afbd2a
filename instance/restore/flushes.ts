/**
 * Makes files durable that are written one after another. Each file is flushed with the descriptor that wrote it, which
 * reports write errors. Before that, `sync -f` flushes the file system: one commit of its journal for some hundred
 * files, instead of one per file.
 */
import { execFile } from 'node:child_process'
import { closeSync, fdatasync } from 'node:fs'
import { promisify } from 'node:util'

/** Maximum number of open files. */
const mostPending = 256
/** After this many bytes of one file, a flush starts while writing continues. */
const unflushedBytes = 64 * 1024 * 1024

const flush = promisify(fdatasync)
const run = promisify(execFile)

export class Flushes {
  readonly #directory: string
  #pending: number[] = []
  #unflushed = 0
  #flushing: Promise<void> | undefined
  #running: Promise<void> = Promise.resolve()
  #fault: { error: unknown } | undefined

  /** @param directory any directory on the file system of the files */
  constructor(directory: string) {
    this.#directory = directory
  }

  /** Starts flushing a large file while it is written. */
  wrote(file: number, bytes: number): void {
    this.#unflushed += bytes
    if (this.#unflushed < unflushedBytes || this.#flushing !== undefined) return
    this.#unflushed = 0
    this.#flushing = this.#noted(flush(file)).finally(() => {
      this.#flushing = undefined
    })
  }

  /** Takes ownership of a written file, and closes it after it is flushed. @throws the error of an earlier file */
  async add(file: number): Promise<void> {
    this.#unflushed = 0
    this.#pending.push(file)
    if (this.#pending.length >= mostPending) await this.#flushPending()
    this.#check()
  }

  /** Closes a file that is not needed. */
  async drop(file: number): Promise<void> {
    await this.#flushing
    closeSync(file)
  }

  /** Resolves once all files are on disk. @throws the error of a file */
  async end(): Promise<void> {
    await this.#flushPending()
    await this.#running
    this.#check()
  }

  /** Resolves once earlier files are on disk. Starts to flush the current files. */
  async #flushPending(): Promise<void> {
    const files = this.#pending
    this.#pending = []
    await this.#flushing
    await this.#running
    this.#running = this.#noted(flushed(this.#directory, files))
  }

  #noted(work: Promise<void>): Promise<void> {
    return work.catch((error: unknown) => {
      this.#fault ??= { error }
    })
  }

  #check(): void {
    if (this.#fault !== undefined) throw this.#fault.error
  }
}

async function flushed(directory: string, files: readonly number[]): Promise<void> {
  try {
    // If this program is missing, each file is flushed separately.
    if (files.length > 1) await run('sync', ['-f', directory]).catch(() => {})
    for (const file of files) await flush(file)
  } finally {
    for (const file of files) closeSync(file)
  }
}
