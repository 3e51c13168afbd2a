/**
 * What serves once, such as a code, remembered by its name until it is too old to serve at all. The memory has an end: with so many others used in between, a name may serve again while it is
 * still young.
 */
type Used = {
  has(name: string): boolean
  add(name: string): void
}

const mostKept = 100_000

/** `lifetimeMs`: after this nothing of that name serves any more, used or not. */
export function createUsed(lifetimeMs: number, now: () => number): Used {
  /** Until when each counts; all live as long, so the first used are the first to go. */
  const until = new Map<string, number>()

  function dropOld(): void {
    for (const [name, end] of until) {
      if (end > now() && until.size <= mostKept) return
      until.delete(name)
    }
  }

  return {
    has: name => (until.get(name) ?? 0) > now(),
    add(name) {
      until.set(name, now() + lifetimeMs)
      dropOld()
    },
  }
}
