/**
 * The newest entries within a window of an instance's pod output, as the cluster keeps it: Postgres's output before it
 * wrote its log to the volume, or all of it if it keeps none there, from the running container and the previous one;
 * and the output of the volume's init container. It works while Postgres does not. What is read for one response is
 * limited.
 */
import { type Cluster, isClusterError, type LogOptions, type ObjectKey } from '../../cluster/index.ts'
import { isAboutCollector, type LogEntry } from '../../instance/log/entry.ts'
import { timestamp } from '../../values/time.ts'
import { entriesOf } from './entries.ts'

export type Window = { maxLines: number; startMs: number | undefined; endMs: number | undefined }

/** The output of one container of a pod, now or before its last end. */
export type Output = Pick<LogOptions, 'container' | 'previous'>

/** The outputs of an instance's pod, newest first. */
const outputs: readonly Output[] = [
  { container: 'postgres' },
  { container: 'postgres', previous: true },
  { container: 'prepare' },
]

/** The most lines that are read for one response. */
const mostLines = 40_000
/** The lines of an entry with statement, detail and context; if they are too few, more are read. */
const linesOf = (entries: number): number => 4 * entries + 50

const stampOf = (line: string | undefined): string => line?.slice(0, line.indexOf(' ')) ?? ''

/** Empty if the pod does not exist, or its container has not started, or has not ended before. */
async function linesIn(cluster: Cluster, pod: ObjectKey, options: LogOptions): Promise<string[]> {
  try {
    return await cluster.logs(pod, options)
  } catch (error) {
    if (isClusterError(error, 'NotFound', 'BadRequest')) return []
    throw error
  }
}

/**
 * The newest lines. The cluster truncates an oversized response at its newest end: then fewer are requested. `isWhole`:
 * there are no older ones.
 */
async function newestLines(cluster: Cluster, pod: ObjectKey, options: LogOptions, count: number) {
  const [newest] = await linesIn(cluster, pod, { ...options, tailLines: 1 })
  if (newest === undefined) return { lines: [], isWhole: true }
  for (let requested = count; ; requested = Math.ceil(requested / 4)) {
    const lines = await linesIn(cluster, pod, { ...options, tailLines: requested })
    const isTruncated = Date.parse(stampOf(lines.at(-1))) < Date.parse(stampOf(newest))
    if (!isTruncated || requested === 1) return { lines, isWhole: requested === count && lines.length < count }
  }
}

/**
 * `entriesIn`: parses lines of the output into entries, oldest first. Returns the newest first. @throws ClusterError
 */
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

/** Newest first. @throws ClusterError if the cluster cannot return the log */
export async function readPrinted(cluster: Cluster, pod: ObjectKey, window: Window): Promise<LogEntry[]> {
  const entries: LogEntry[] = []
  for (const output of outputs) {
    const remaining = window.maxLines - entries.length
    if (remaining === 0) break
    entries.push(...(await newestEntries(cluster, pod, output, { ...window, maxLines: remaining }, ofPostgres)))
  }
  return entries
}
