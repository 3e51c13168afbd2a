/**
 * Reports, in the gateway's Lease, the databases to which a connection just failed. The operator rarely probes a stable
 * database; after a report it probes the database at once. The list is limited and expires soon. So a client that
 * repeatedly connects to a stopped database causes few reports.
 */
type Unreachable = {
  /** A connection to the database behind this port failed. */
  report(port: number): void
  /** The ports that were reported recently, in ascending order. */
  ports(): number[]
}

/** The maximum number of reported ports. If more databases are unreachable, other signals show the problem. */
const mostPorts = 20
/**
 * How long a port is reported: longer than the time between two heartbeats, so that every report is in at least one
 * renewal of the Lease.
 */
const retainedMs = 15_000
/** The minimum time between two reports. */
const pauseMs = 1_000

export function createUnreachable({
  now,
  onReport,
}: {
  now: () => number
  /** Called when a new report exists. */
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
