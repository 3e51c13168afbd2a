/** Durations in configurations: `500ms`, `30s`, `1.5h`. */

const units: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** The duration in milliseconds. NaN if the text is not a duration. */
export function durationMs(text: string): number {
  const [, count = '', unit = ''] = /^(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h|d)$/.exec(text) ?? []
  return Math.round(Number(count) * (units[unit] ?? Number.NaN))
}
