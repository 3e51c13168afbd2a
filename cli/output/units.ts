/** Formats bytes and ages for a terminal. */

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']

/** Formats bytes, such as `1.5 GiB`. Returns undefined for undefined. */
export function bytesText(bytes: number | undefined): string | undefined {
  if (bytes === undefined) return undefined
  let value = bytes
  let unit = 0
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit++
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`
}

const steps = [
  [86_400, 'd'],
  [3600, 'h'],
  [60, 'm'],
] as const

/** Returns the age of a time, such as `3h ago`. Returns the text unchanged if it is not a time. */
export function ageOf(time: string | undefined, now: number = Date.now()): string | undefined {
  if (time === undefined) return undefined
  const seconds = Math.max(0, Math.floor((now - Date.parse(time)) / 1000))
  if (Number.isNaN(seconds)) return time
  const [length, unit] = steps.find(([step]) => seconds >= step) ?? [1, 's']
  return `${Math.floor(seconds / length)}${unit} ago`
}
