/**
 * Remembers single-use values, such as nonces, from their use until they expire. Above a limit, forgets the oldest
 * values. Clients could then use these values again until they expire.
 */
type Used = {
  has(value: string): boolean
  add(value: string): void
}

const maximumEntries = 100_000

/** `lifetimeMs`: how long a value is remembered. The caller must itself refuse older values. */
export function createUsed(lifetimeMs: number, now: () => number): Used {
  /** The expiry of each value. All values have the same lifetime, so the first value in the map expires first. */
  const until = new Map<string, number>()

  function dropOld(): void {
    for (const [value, end] of until) {
      if (end > now() && until.size <= maximumEntries) return
      until.delete(value)
    }
  }

  return {
    has: value => (until.get(value) ?? 0) > now(),
    add(value) {
      until.set(value, now() + lifetimeMs)
      dropOld()
    },
  }
}
