/**
 * Postgres servers that gateways report as unreachable although the operator can reach them: a network policy or a node
 * blocks the gateways. A gateway lists a port for some time after one failure. If a gateway still lists it long after
 * the operator has logged in through the Service, a later connection has failed.
 */
type GatewayReports = {
  /**
   * Handles a change of the gateways' Leases. `listed`: every owner whose port a gateway lists.
   * @returns the owners whose report changes
   */
  update(listed: ReadonlySet<string>): string[]
  /** Whether gateways fail to connect although the operator can connect. */
  isCutOff(key: string): boolean
  forget(key: string): void
}

/**
 * A gateway lists a failure for 15 s, and until its next heartbeat, 10 s. After this time since a login, the listed
 * failure cannot be older than the login.
 */
const staleMs = 30_000

type Entry = { provedAt: number | undefined; isCutOff: boolean }

/** `isProved`: whether the operator's last probe logged in through the Service. */
export function createGatewayReports(isProved: (key: string) => boolean, now: () => number): GatewayReports {
  const entries = new Map<string, Entry>()

  const next = (key: string, { provedAt, isCutOff }: Entry): Entry => {
    if (!isProved(key)) return { provedAt: undefined, isCutOff }
    const since = provedAt ?? now()
    return { provedAt: since, isCutOff: isCutOff || now() - since > staleMs }
  }

  return {
    update: listed => {
      const changed = [...entries].filter(([key, entry]) => entry.isCutOff && !listed.has(key)).map(([key]) => key)
      for (const key of entries.keys()) if (!listed.has(key)) entries.delete(key)
      for (const key of listed) {
        const before = entries.get(key) ?? { provedAt: undefined, isCutOff: false }
        const after = next(key, before)
        entries.set(key, after)
        if (after.isCutOff !== before.isCutOff) changed.push(key)
      }
      return changed
    },
    isCutOff: key => entries.get(key)?.isCutOff === true,
    forget: key => void entries.delete(key),
  }
}
