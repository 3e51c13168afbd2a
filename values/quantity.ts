/**
 * Kubernetes resource quantities (API reference, Quantity): their value, and the API server's form. Espalier's own
 * fields accept only the plain forms (crds/fields.ts). A cluster may write a value in any form.
 */

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
const anyForm = /^([+-]?[0-9]+(?:\.[0-9]*)?|[+-]?\.[0-9]+)(?:[eE]([+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)$/
const plainForm = /^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$/

/** The value of a quantity in any form; undefined if it is invalid. */
export function parseQuantity(quantity: unknown): number | undefined {
  const match = typeof quantity === 'string' || typeof quantity === 'number' ? anyForm.exec(`${quantity}`) : null
  if (match === null) return undefined
  const [, digits, exponent, suffix = ''] = match
  return Number(digits) * (exponent === undefined ? (factors[suffix] ?? 1) : 10 ** Number(exponent))
}

/** The value of a quantity in a plain form: `500m` is 0.5. @throws RangeError for anything else */
export function quantityToNumber(quantity: string): number {
  const value = plainForm.test(quantity) ? parseQuantity(quantity) : undefined
  if (value === undefined) throw new RangeError(`${JSON.stringify(quantity)} is not a resource quantity`)
  return value
}

/** Whole bytes of a quantity in a plain form, rounded up as Kubernetes does. @throws RangeError */
export const quantityToBytes = (quantity: string): number => Math.ceil(quantityToNumber(quantity))

/** Whole bytes of a quantity in any form; undefined if it is invalid or not a size. */
export function sizeInBytes(quantity: string | undefined): number | undefined {
  const value = parseQuantity(quantity)
  return value === undefined || value < 0 || !Number.isFinite(value) ? undefined : Math.ceil(value)
}

const binary = { Ti: 2 ** 40, Gi: 2 ** 30, Mi: 2 ** 20, Ki: 2 ** 10, '': 1 }
const decimal = { T: 1e12, G: 1e9, M: 1e6, k: 1e3, '': 1, m: 1e-3 }

/**
 * The canonical form that the API server stores, so that a draft equals the stored object. It has no fraction, and the
 * largest suffix that leaves an integer: `1000m` is `1`, `0.5` is `500m`, `1024Mi` is `1Gi`. @throws RangeError
 */
export function canonicalQuantity(quantity: string): string {
  const value = quantityToNumber(quantity)
  if (value === 0) return '0'
  const ladder = quantity.endsWith('i') ? binary : decimal
  for (const [unit, factor] of Object.entries(ladder)) {
    const scaled = Number((value / factor).toPrecision(15))
    if (Number.isInteger(scaled)) return `${scaled}${unit}`
  }
  return quantity
}
