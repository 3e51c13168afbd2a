/**
 * Reports in its Lease the databases that this gateway just failed to connect to: the operator, which rarely probes a
 * stable database, then probes it at once. The list is limited and expires soon, so that a client that repeatedly
 * connects to a stopped database causes few reports.
 */
type Unreachable = {
  /** A connection to the database behind this port failed. */
  report(port: number): void
  /** Those reported recently, in order. */
  ports(): number[]
}

/** The most reported at once. If more are unreachable, other signals show the problem. */
const mostPorts = 20
/**
 * How long one is reported: longer than the time between two heartbeats, so that every report is in at least one
 * renewal.
 */
const retainedMs = 15_000
/** The minimum time between two reports. */
const pauseMs = 1_000

export function createUnreachable({
  now,
  onReport,
}: {
  now: () => number
  /** Whether there is a new report. */
  onReport: () => void
}): Unreachable {
  const reported = new Map<number, number>()
  let pending: NodeJS.Timeout | undefined
  let isMore = false

  const prune = (): void => {
    for (const [port, at] of reported) if (now() - at >= retainedMs) reported.delete(port)
  }
  const notify = (): void => {
    isMore = false
    onReport()
    pending = setTimeout(() => {
      pending = undefined
      if (isMore) notify()
    }, pauseMs)
    pending.unref()
  }

  return {
    report: port => {
      prune()
      if (reported.has(port) || reported.size >= mostPorts) return
      reported.set(port, now())
      if (pending === undefined) notify()
      else isMore = true
    },
    ports: () => {
      prune()
      return [...reported.keys()].toSorted((left, right) => left - right)
    },
  }
}
