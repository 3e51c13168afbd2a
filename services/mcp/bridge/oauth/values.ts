/** Values of the configuration that several keys have. */
import { z } from 'zod'

const units: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** `30s`, `5m`, `24h`; read as milliseconds. */
export const duration = (minimumMs: number, maximumMs: number) =>
  z
    .string()
    .regex(/^\d{1,9}(ms|s|m|h|d)$/, 'must be a duration such as 500ms, 30s, 5m, 24h or 7d')
    .transform(text => {
      const unit = text.replace(/^\d+/, '')
      return Number(text.slice(0, -unit.length)) * (units[unit] ?? 1)
    })
    .refine(ms => ms >= minimumMs && ms <= maximumMs, `must be from ${minimumMs} ms to ${maximumMs} ms`)
