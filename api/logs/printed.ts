/**
 * The newest entries within a window of what an instance's pod has printed, as the cluster keeps it: what Postgres wrote until it kept its
 * log on the volume, or all that it wrote where it keeps none there, now and before its container last ended; and what prepared its
 * volume. It works while Postgres does not. What is read for one answer is bounded, whatever there is.
 */
import { type Cluster, isClusterError, type LogOptions, type ObjectKey } from '../../cluster/index.ts'
import { isAboutCollector, type LogEntry } from '../../instance/log/entry.ts'
import { timestamp } from '../../values/time.ts'
import { entriesOf } from './entries.ts'

export type Window = { maxLines: number; startMs: number | undefined; endMs: number | undefined }

/** What one container of a pod has printed, now or before it last ended. */
export type Output = Pick<LogOptions, 'container' | 'previous'>

/** The outputs of an instance's pod, newest first. */
const outputs: readonly Output[] = [
  { container: 'postgres' },
  { container: 'postgres', previous: true },
  { container: 'prepare' },
]

/** Most lines that are looked at for one answer. */
const mostLines = 40_000
/** An entry with its statement, detail and context has some; more are asked for where these were too few. */
const linesOf = (entries: number): number => 4 * entries + 50

const stampOf = (line: string | undefined): string => line?.slice(0, line.indexOf(' ')) ?? ''

/** Nothing where there is no such pod, or its container has not begun, or has not ended before. */
async function linesIn(cluster: Cluster, pod: ObjectKey, options: LogOptions): Promise<string[]> {
  try {
    return await cluster.logs(pod, options)
  } catch (error) {
    if (isClusterError(error, 'NotFound', 'BadRequest')) return []
    throw error
  }
}

/**
 * The newest lines. The cluster cuts off an answer that is too large at its newest end: then fewer are asked for. `isWhole`: there
 * are no older ones.
 */
async function newestLines(cluster: Cluster, pod: ObjectKey, options: LogOptions, count: number) {
  const [newest] = await linesIn(cluster, pod, { ...options, tailLines: 1 })
  if (newest === undefined) return { lines: [], isWhole: true }
  for (let asked = count; ; asked = Math.ceil(asked / 4)) {
    const lines = await linesIn(cluster, pod, { ...options, tailLines: asked })
    const isCut = Date.parse(stampOf(lines.at(-1))) < Date.parse(stampOf(newest))
    if (!isCut || asked === 1) return { lines, isWhole: asked === count && lines.length < count }
  }
}

/** `entriesIn`: the entries that lines of the output hold, oldest first. Newest first. @throws ClusterError */
export async function newestEntries(
  cluster: Cluster,
  pod: ObjectKey,
  output: Output,
  { maxLines, startMs, endMs }: Window,
  entriesIn: (lines: readonly string[]) => LogEntry[],
): Promise<LogEntry[]> {
  const options = { ...output, ...(startMs === undefined ? {} : { sinceTime: timestamp(startMs) }) }
  const isWithin = (entry: LogEntry): boolean => {
    const at = Date.parse(entry.timestamp)
    return at >= (startMs ?? at) && (endMs === undefined || at < endMs)
  }
  for (let count = linesOf(maxLines); ; count = Math.min(count * 4, mostLines)) {
    const { lines, isWhole } = await newestLines(cluster, pod, options, count)
    const found = entriesIn(lines).filter(isWithin)
    const isAll = isWhole || lines.length < count || count >= mostLines
    if (isAll || found.length >= maxLines) return found.slice(-maxLines).reverse()
  }
}

const ofPostgres = (lines: readonly string[]): LogEntry[] => entriesOf(lines).filter(entry => !isAboutCollector(entry))

/** Newest first. @throws ClusterError where the cluster cannot tell */
export async function readPrinted(cluster: Cluster, pod: ObjectKey, window: Window): Promise<LogEntry[]> {
  const entries: LogEntry[] = []
  for (const output of outputs) {
    const left = window.maxLines - entries.length
    if (left === 0) break
    entries.push(...(await newestEntries(cluster, pod, output, { ...window, maxLines: left }, ofPostgres)))
  }
  return entries
}
