/**
 * Postgres servers that gateways report as unreachable while the operator reaches them: a network policy, or a node,
 * blocks the gateways. A gateway lists a port for some time after one failure; one that is still listed long after the
 * operator has logged in through the Service has failed since.
 */
type GatewayReports = {
  /**
   * Handles a change of the gateways' Leases: every owner whose port is listed. @returns the owners whose report
   * changes
   */
  update(listed: ReadonlySet<string>): string[]
  /** Whether gateways fail to connect while the operator does not. */
  isCutOff(key: string): boolean
  forget(key: string): void
}

/**
 * A failure is listed for 15 s and until the next heartbeat, 10 s; this long after a login it cannot be an earlier one.
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
