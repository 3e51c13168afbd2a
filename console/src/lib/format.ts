/** Formats numbers, times and states for users. Pure. */
import { texts } from '../texts.ts'

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']

export function bytes(count: number): string {
  let value = count
  let unit = 0
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit += 1
  }
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`
}

const factors: Record<string, number> = {
  '': 1,
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 1024,
  Mi: 1024 ** 2,
  Gi: 1024 ** 3,
  Ti: 1024 ** 4,
  Pi: 1024 ** 5,
}

/** Parses a Kubernetes quantity. Returns undefined if the text is not a quantity. */
export function quantity(text: string): number | undefined {
  const [, figure = '', unit = ''] = /^(\d+(?:\.\d+)?)([A-Za-z]*)$/.exec(text) ?? []
  const factor = Object.hasOwn(factors, unit) ? factors[unit] : undefined
  return figure === '' || factor === undefined ? undefined : Number(figure) * factor
}

/** Formats a quantity of memory or storage, for example `10Gi` as `10 GiB`. */
export function quantityOfBytes(text: string): string {
  const value = quantity(text)
  return value === undefined ? text : bytes(value).replace(/\.0 /, ' ')
}

/** Formats a duration in its largest unit. */
export function span(ms: number): string {
  const seconds = Math.round(Math.abs(ms) / 1000)
  if (seconds < 60) return texts.time.seconds(seconds)
  if (seconds < 3600) return texts.time.minutes(Math.round(seconds / 60))
  if (seconds < 48 * 3600) return texts.time.hours(Math.round(seconds / 3600))
  return texts.time.days(Math.round(seconds / 86_400))
}

export function relative(at: number, now: number): string {
  const ms = now - at
  if (Math.abs(ms) < 5000) return texts.time.now
  return ms > 0 ? texts.time.ago(span(ms)) : texts.time.ahead(span(ms))
}

/** Formats the local date and time, to the second. */
export const moment = (at: number): string =>
  new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' }).format(at)

const [clock, day] = [
  new Intl.DateTimeFormat('en-GB', { timeStyle: 'short' }),
  new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' }),
]

/** Formats a tick of a time axis: the time of day, or the date at midnight. */
export function tick(at: number): string {
  const date = new Date(at)
  return (date.getHours() === 0 && date.getMinutes() === 0 ? day : clock).format(date)
}

type Pricing = { price_amount: number; currency: string; billing_interval: string }

/** Formats a price with its billing interval. `price_amount` is in the smallest unit of the currency. */
export function price({ price_amount: amount, currency, billing_interval: interval }: Pricing): string {
  try {
    const format = new Intl.NumberFormat('en', { style: 'currency', currency })
    const digits = format.resolvedOptions().maximumFractionDigits ?? 2
    return texts.units.perInterval(format.format(amount / 10 ** digits), interval)
  } catch {
    // The browser rejects text that is not a currency code.
    return texts.units.perInterval(`${amount} ${currency}`, interval)
  }
}

export const statusText = (status: string): string =>
  (Object.hasOwn(texts.status, status) ? texts.status[status] : undefined) ?? status

type Tone = 'good' | 'busy' | 'bad' | 'warning' | 'quiet'

const tones: Record<string, Tone> = {
  available: 'good',
  succeeded: 'good',
  completed: 'good',
  running: 'busy',
  creating: 'busy',
  modifying: 'busy',
  restoring: 'busy',
  suspending: 'busy',
  resuming: 'busy',
  deleting: 'busy',
  queued: 'busy',
  pending: 'busy',
  degraded: 'warning',
  failed: 'bad',
}

export const toneOf = (status: string): Tone => (Object.hasOwn(tones, status) ? tones[status] : undefined) ?? 'quiet'

export const operationText = (name: string): string =>
  (Object.hasOwn(texts.operations.names, name) ? texts.operations.names[name] : undefined) ?? name.replaceAll('-', ' ')
