/** Values of the configuration that several keys have. */
import { z } from 'zod'
import { durationMs } from '../../configuration/duration.ts'

const rule = 'must be a duration such as 500ms, 30s, 5m, 24h or 7d'

/** `30s`, `5m`, `24h`; read as milliseconds. */
export const duration = (minimumMs: number, maximumMs: number) =>
  z
    .string(rule)
    .transform(durationMs)
    .refine(ms => !Number.isNaN(ms), { error: rule, abort: true })
    .refine(ms => ms >= minimumMs && ms <= maximumMs, `must be from ${minimumMs} ms to ${maximumMs} ms`)
