/**
 * Databases that this gateway could not connect to just now, told in its Lease: the operator, which looks at a database
 * at rest rarely, takes a look at once. What is told is bounded, and soon told no more: a client that connects again and
 * again to a database that is down makes it known, and no noise.
 */
// @ts-nocheck

type Unreachable = {
  /** A connection to the database behind this port failed. */
  report(port: number): void
  /** Those reported a short while ago, in order. */
  ports(): number[]
}

/** How many are told at once. Where more are out of reach, something is wrong that shows elsewhere. */
const mostPorts = 20
/** How long one is told: longer than between two heartbeats, so that no renewal of the Lease passes it over. */
const toldMs = 15_000
/** At most so often is anybody told of something new. */
const pauseMs = 1_000

export function createUnreachable({
  now,
  onReport,
}: {
  now: () => number
  /** There is something new to tell. */
  onReport: () => void
}): Unreachable {
  const reported = new Map<number, number>()
  let pending: NodeJS.Timeout | undefined
  let isMore = false

  const prune = (): void => {
    for (const [port, at] of reported) if (now() - at >= toldMs) reported.delete(port)
  }
  const tell = (): void => {
    isMore = false
    onReport()
    pending = setTimeout(() => {
      pending = undefined
      if (isMore) tell()
    }, pauseMs)
    pending.unref()
  }

  return {
    report: port => {
      prune()
      if (reported.has(port) || reported.size >= mostPorts) return
      reported.set(port, now())
      if (pending === undefined) tell()
      else isMore = true
    },
    ports: () => {
      prune()
      return [...reported.keys()].toSorted((left, right) => left - right)
    },
  }
}
