/** Statistics that benchmarks print. */

const sorted = (values: readonly number[]): number[] => [...values].sort((left, right) => left - right)

/** The value below which `part` (0 to 1) of the values are; 0 for none. */
export const percentile = (values: readonly number[], part: number): number =>
  sorted(values)[Math.max(0, Math.ceil(values.length * part) - 1)] ?? 0

export const median = (values: readonly number[]): number => percentile(values, 0.5)

/** One line: a name, padded, and its figure. */
export const print = (name: string, text: string): void => console.log(`${name.padEnd(44)} ${text}`)

/** `label: measured against aim`, so that a miss is visible. */
export const against = (value: number, aim: number, kind: 'at most' | 'at least', unit = ''): string => {
  const met = kind === 'at most' ? value <= aim : value >= aim
  return `${value.toFixed(2)}${unit} (aim: ${kind} ${aim}${unit}${met ? '' : '; MISSED'})`
}
