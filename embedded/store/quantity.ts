/** Kubernetes resource quantities as numbers, exact enough to compare two of them. */

const factors: { readonly [suffix: string]: number } = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
}
const pattern = /^([+-]?[0-9]+(?:\.[0-9]*)?|[+-]?\.[0-9]+)(?:[eE]([+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)$/

/** The value of a quantity, or undefined where the text is none. */
export function parseQuantity(text: unknown): number | undefined {
  const match = typeof text === 'string' || typeof text === 'number' ? pattern.exec(`${text}`) : null
  if (match === null) return undefined
  const [, digits, exponent, suffix = ''] = match
  return Number(digits) * (exponent === undefined ? (factors[suffix] ?? 1) : 10 ** Number(exponent))
}
