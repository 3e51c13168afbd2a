/** Parses a token's lifetime from the command line. */

const day = 86_400_000
const units: Readonly<Record<string, number>> = { h: 3_600_000, d: day, w: 7 * day, y: 365 * day }
const longestYears = 100

export const expiryRule = 'must be like 12h, 30d, 2w or 1y, at most 100y, or never'

/** Returns milliseconds, null for a token that never expires, or undefined if the text is invalid. */
export function parseExpiry(text: string): number | null | undefined {
  if (text === 'never') return null
  const [, count = '', unit = ''] = /^(\d{1,7})([hdwy])$/.exec(text) ?? []
  const ms = Number(count) * (units[unit] ?? 0)
  return ms > 0 && ms <= longestYears * 365 * day ? ms : undefined
}
