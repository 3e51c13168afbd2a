/**
 * What gateways report as out of reach while the operator reaches it: a network policy, or a node, that keeps them from a
 * Postgres. A gateway lists a port for a while after one failure; one that is still listed long after the operator has logged in by
 * the Service has failed since.
 */
type GatewayReports = {
  /** Of a change of the gateways' Leases: every owner whose port is listed. @returns those of which something else is to be said now */
  heard(listed: ReadonlySet<string>): string[]
  /** Whether gateways fail where the operator does not. */
  isCutOff(key: string): boolean
  forget(key: string): void
}

/** A failure is listed for 15 s and until the next heartbeat, 10 s; so long after a login it is no earlier one. */
const staleMs = 30_000

type Entry = { provedAt: number | undefined; isCutOff: boolean }

/** `isProved`: whether the operator's last probe logged in by the Service. */
export function createGatewayReports(isProved: (key: string) => boolean, now: () => number): GatewayReports {
  const entries = new Map<string, Entry>()

  const next = (key: string, { provedAt, isCutOff }: Entry): Entry => {
    if (!isProved(key)) return { provedAt: undefined, isCutOff }
    const since = provedAt ?? now()
    return { provedAt: since, isCutOff: isCutOff || now() - since > staleMs }
  }

  return {
    heard: listed => {
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
