/**
 * Times as Kubernetes writes them: RFC 3339 in UTC. Other writers use any precision; `Date.parse` reads all of them.
 */

/** With milliseconds, as in API responses, so that events within one second keep their order. */
export const preciseTime = (ms: number): string => new Date(ms).toISOString()

/** With whole seconds, as in metadata and conditions. */
export const timestamp = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`

/** A MicroTime, as in Leases. Kubernetes accepts exactly six digits after the second. */
export const microTime = (ms: number): string => new Date(ms).toISOString().replace('Z', '000Z')

/** The time between two times as Kubernetes prints durations: `8s`, `2m10s`, `3h5m`. */
export function durationText(fromMs: number, toMs: number): string {
  const seconds = Math.max(0, Math.round((toMs - fromMs) / 1000))
  const [hours, minutes, rest] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60), seconds % 60]
  if (hours > 0) return `${hours}h${minutes}m`
  return minutes > 0 ? `${minutes}m${rest}s` : `${rest}s`
}
