/**
 * Archives the files that Postgres has finished: files with a `.ready` file in `archive_status`. Sends four files
 * concurrently, and reads each file in small pieces. Writes a marker once the archive has acknowledged the file. Then
 * `archive_command` succeeds, and Postgres may remove the file.
 */
import { constants, type FSWatcher, watch } from 'node:fs'
import { open, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type ArchiveClient, pauseMs } from './client.ts'
import { compressed } from './compression.ts'
import { chunksOf, type Digests, digestOfFile, type FileDigest, isMissing } from './digests.ts'
import { segmentBefore } from './predecessor.ts'
import type { ArchiveState } from './state.ts'
import { ArchiveFault, type Content } from './transport.ts'
import { inOrderOfArchiving, isArchivedFile, isSegment } from './wal.ts'

type SegmentsOptions = {
  client: ArchiveClient
  state: ArchiveState
  /** The data directory. */
  data: string
  /** The directory in which `archive_command` checks for markers. */
  markers: string
  digests: Digests
  log: (line: string) => void
  signal: AbortSignal
}

const concurrentFiles = 4
/** The directory is watched. This interval is for file systems that do not report changes. */
const pollMs = 1_000
const afterConflictMs = 30_000

/** Runs until `signal`. Never fails. */
export async function archiveSegments(options: SegmentsOptions): Promise<void> {
  const { data, signal, state, log } = options
  const directory = join(data, 'pg_wal', 'archive_status')
  const waker = createWaker(directory)
  signal.addEventListener('abort', waker.wake, { once: true })
  try {
    for (let attempt = 1; !signal.aborted; ) {
      const woken = waker.next(pollMs)
      try {
        const { hasMore } = await archiveReady(options, directory)
        // Only a complete pass clears a fault: one archived file does not mean that the failed file is archived.
        state.succeeded('segments')
        attempt = 1
        if (!hasMore) await woken
      } catch (error) {
        if (signal.aborted) break
        state.failed('segments', error)
        const isConflict = error instanceof ArchiveFault && error.code === 'conflict'
        await delay(isConflict ? afterConflictMs : pauseMs(attempt++), undefined, { signal }).catch(() => {})
      }
    }
  } catch (error) {
    log(`archiving: segments: stopped: ${error instanceof Error ? error.message : error}`)
  } finally {
    waker.close()
  }
}

/** Makes one pass over the ready files. The next pass retries failures. @throws ArchiveFault, file system errors */
async function archiveReady(options: SegmentsOptions, directory: string): Promise<{ hasMore: boolean }> {
  const { state, markers, signal } = options
  const archived = new Set(await readdir(markers))
  // Ready files are listed after the markers. Otherwise the marker of a file that becomes ready in between is removed.
  const found = await readyIn(directory)
  const ready = new Set(found)
  for (const name of archived)
    if (isArchivedFile(name) && !ready.has(name)) await rm(join(markers, name), { force: true })
  const waiting = inOrderOfArchiving(found.filter(name => !archived.has(name)))
  state.waiting(waiting)
  const queue = toSend(waiting, state)
  const queued = queue.length
  const workers = Array.from({ length: concurrentFiles }, async () => {
    for (let name = queue.shift(); name !== undefined && !signal.aborted; name = queue.shift()) {
      try {
        await archiveFile(options, name)
      } catch (error) {
        // The other workers end after their current file.
        queue.length = 0
        throw error
      }
    }
  })
  const results = await Promise.allSettled(workers)
  for (const result of results) if (result.status === 'rejected') throw result.reason
  return { hasMore: waiting.length > queued }
}

/**
 * The files to send in one pass. Before the archive has accepted a file of this agent, the first file may conflict with
 * another server's file. Then the archive must not store later files either, so only one file is sent.
 */
export const toSend = (waiting: readonly string[], state: Pick<ArchiveState, 'refused' | 'hasArchived'>): string[] =>
  waiting.slice(0, state.refused === undefined && state.hasArchived ? 4 * concurrentFiles : 1)

const readySuffix = '.ready'

/** Empty if the data directory does not exist yet. */
async function readyIn(directory: string): Promise<string[]> {
  try {
    const names = await readdir(directory)
    return names
      .filter(name => name.endsWith(readySuffix))
      .map(name => name.slice(0, -readySuffix.length))
      .filter(isArchivedFile)
  } catch (error) {
    if (isMissing(error)) return []
    throw error
  }
}

async function archiveFile(options: SegmentsOptions, name: string): Promise<void> {
  const { client, state, data, markers, signal, digests } = options
  const path = join(data, 'pg_wal', name)
  const digest = isSegment(name) ? await digests(name) : await digestOfFile(path)
  // Postgres removes the status file of a missing file itself.
  if (digest === undefined) return
  const before = isSegment(name) ? segmentBefore(name, BigInt(digest.size)) : undefined
  const predecessor = before === undefined ? undefined : (await digests(before))?.sha256
  const content = contentOfFile(path, digest, client.acceptsZstd())
  await client.send('PUT', `wal/${name}`, { content, predecessor, signal })
  const marker = await open(join(markers, name), constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW, 0o644)
  await marker.close()
  state.archivedFile(name)
}

/** A finished file does not change. It is read once for its digest, and once for each attempt. */
const contentOfFile = (path: string, digest: FileDigest, isCompressed: boolean): Content =>
  isCompressed
    ? { ...digest, compressed: { size: undefined }, chunks: () => compressed(chunksOf(path)) }
    : { ...digest, chunks: () => chunksOf(path) }

/** `next` resolves when the directory changes, at the latest after the given time. */
function createWaker(directory: string) {
  let wake = () => {}
  let watcher: FSWatcher | undefined
  const begin = () => {
    try {
      watcher = watch(directory, { persistent: false }, () => wake())
      // The directory was deleted. The next pass watches it again.
      watcher.on('error', () => {
        watcher?.close()
        watcher = undefined
      })
    } catch {
      watcher = undefined
    }
  }
  return {
    wake: () => wake(),
    close: () => watcher?.close(),
    next(ms: number): Promise<void> {
      if (watcher === undefined) begin()
      const { promise, resolve } = Promise.withResolvers<void>()
      const timer = setTimeout(resolve, ms)
      wake = () => {
        clearTimeout(timer)
        resolve()
      }
      return promise
    },
  }
}
