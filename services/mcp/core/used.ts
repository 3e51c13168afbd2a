/**
 * Remembers single-use names, such as codes, until they expire. The number of names is limited. If very many names are
 * used, the oldest are forgotten, and a caller could use them again before they expire.
 */
type Used = {
  has(name: string): boolean
  add(name: string): void
}

const maximumEntries = 100_000

/** `lifetimeMs`: after this time every name is invalid, whether it was used or not. */
export function createUsed(lifetimeMs: number, now: () => number): Used {
  /** Expiry by name. All names have the same lifetime, so the first name in the map expires first. */
  const until = new Map<string, number>()

  function dropOld(): void {
    for (const [name, end] of until) {
      if (end > now() && until.size <= maximumEntries) return
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
