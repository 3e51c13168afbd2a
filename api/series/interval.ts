/** An interval of metrics as text: a number of seconds, minutes, hours or days. */
import { z } from 'zod'

const form = /^[0-9]{1,4}[ ,](second|minute|hour|day)s?$/

const unitMs = { second: 1000, minute: 60_000, hour: 3600_000, day: 86_400_000 } as const
type Unit = keyof typeof unitMs

export const defaultInterval = '1 minute'

/** Returns the interval's length in milliseconds, for valid text. */
export function intervalMs(text: string): number {
  const [count = '', unit = ''] = text.split(/[ ,]/)
  return Number(count) * unitMs[unit.replace(/s$/, '') as Unit]
}

export const interval = z
  .string()
  .regex(form, 'must be a number and a unit, such as "5 minutes": second, minute, hour or day')
  .refine(text => !form.test(text) || intervalMs(text) > 0, 'must be longer than zero')
  // Both rules in one pattern, for the API description.
  .meta({ pattern: '^(?!0+[ ,])[0-9]{1,4}[ ,](second|minute|hour|day)s?$' })
