/** Statistics that benchmarks print. */

const sorted = (values: readonly number[]): number[] => [...values].sort((left, right) => left - right)

/** Returns the percentile of the values for `part` (0 to 1). Returns 0 if there are no values. */
export const percentile = (values: readonly number[], part: number): number =>
  sorted(values)[Math.max(0, Math.ceil(values.length * part) - 1)] ?? 0

export const median = (values: readonly number[]): number => percentile(values, 0.5)

/** Prints one line: a padded name, and its figure. */
export const print = (name: string, text: string): void => console.log(`${name.padEnd(44)} ${text}`)

/** Returns the measured value with its aim, and with MISSED if it misses the aim. */
export const against = (value: number, aim: number, kind: 'at most' | 'at least', unit = ''): string => {
  const met = kind === 'at most' ? value <= aim : value >= aim
  return `${value.toFixed(2)}${unit} (aim: ${kind} ${aim}${unit}${met ? '' : '; MISSED'})`
}
