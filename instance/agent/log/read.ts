/**
 * Reads the newest log entries of a window. Reads each file from its end, and skips files outside the window. Limits
 * the bytes read, the memory and the time of one response.
 */

import { isAboutCollector, type LogEntry, newestFirst } from '../../log/entry.ts'
import { entryOfHead, entryOfLine, timeOfLine } from '../../log/json.ts'
import { presented } from '../../log/present.ts'
import { logAnswerMs } from '../contract.ts'
import { type LogDirectory, type LogFile, openLogDirectory } from './directory.ts'
import { linesBackwards } from './lines.ts'

type LogQuery = {
  /** The window, in ms since the epoch: `sinceMs` is included, `untilMs` is not. */
  sinceMs: number
  untilMs: number
  most: number
}
/** Newest first. `isWhole`: the answer contains all entries of the window. */
type LogAnswer = { entries: LogEntry[]; isWhole: boolean }

type Limits = { readBytes: number; answerBytes: number; ms: number }

const MiB = 2 ** 20
const defaultLimits: Limits = { readBytes: 32 * MiB, answerBytes: 2 * MiB, ms: logAnswerMs }

/**
 * A process may write an entry this long after the entry's time, because it reads the clock before it waits to write.
 * File names only have seconds.
 */
const slackMs = 5_000

/** Counts the bytes and the time of one response. */
function budget({ readBytes, answerBytes, ms }: Limits) {
  const until = performance.now() + ms
  let [read, answered] = [0, 0]
  return {
    spend: { read: (bytes: number) => (read += bytes), answer: (bytes: number) => (answered += bytes) },
    isSpent: () => read >= readBytes || answered >= answerBytes || performance.now() >= until,
  }
}

/** The approximate size of an entry, without converting it to text. */
const lengthOf = (entry: LogEntry): number =>
  Object.entries(entry).reduce((sum, [name, value]) => sum + name.length + String(value).length, 0)

/** Files that may contain entries of the window, newest first. */
function filesWithin(files: readonly LogFile[], { sinceMs, untilMs }: LogQuery): LogFile[] {
  const ofJson = files.filter(({ kind }) => kind === 'json')
  return ofJson
    .filter(({ begunAt }, index) => {
      const endedAt = ofJson[index + 1]?.begunAt ?? Number.POSITIVE_INFINITY
      return begunAt - slackMs < untilMs && endedAt + slackMs >= sinceMs
    })
    .reverse()
}

async function readFrom(directory: LogDirectory, query: LogQuery, limits: Limits): Promise<LogAnswer> {
  const { sinceMs, untilMs, most } = query
  const { spend, isSpent } = budget(limits)
  const entries: LogEntry[] = []
  for (const { name } of filesWithin(directory.files, query)) {
    const file = await directory.open(name).catch(() => undefined)
    if (file === undefined) continue // the file was removed meanwhile
    try {
      const lines = linesBackwards(file, bytes => {
        spend.read(bytes)
        return !isSpent()
      })
      for await (const { text, isTruncated } of lines) {
        if (entries.length >= most) return { entries, isWhole: false }
        const at = timeOfLine(text)
        if (at === undefined || at >= untilMs) continue
        if (at < sinceMs - slackMs) return { entries, isWhole: true }
        const entry = at < sinceMs ? undefined : isTruncated ? entryOfHead(text) : entryOfLine(text)
        if (entry === undefined || isAboutCollector(entry)) continue
        const shown = presented(entry)
        spend.answer(lengthOf(shown))
        entries.push(shown)
      }
      if (isSpent()) return { entries, isWhole: false }
    } finally {
      await file.close()
    }
  }
  return { entries, isWhole: true }
}

/** Returns no entries if this owner has no log. */
export async function readLog(
  path: string,
  owner: string,
  query: LogQuery,
  limits: Limits = defaultLimits,
): Promise<LogAnswer> {
  const directory = openLogDirectory(path, owner)
  if (directory === undefined) return { entries: [], isWhole: true }
  try {
    const { entries, isWhole } = await readFrom(directory, query, limits)
    return { entries: newestFirst(entries), isWhole }
  } finally {
    directory.close()
  }
}
