/**
 * The one spelling of a resource quantity that the API server stores, so that a draft compares equal with what became
 * of it (Kubernetes API reference, Quantity: no fraction, the largest suffix that leaves an integer).
 */
import { quantityToNumber } from '../../values/quantity.ts'

const binary = { Ti: 2 ** 40, Gi: 2 ** 30, Mi: 2 ** 20, Ki: 2 ** 10, '': 1 }
const decimal = { T: 1e12, G: 1e9, M: 1e6, k: 1e3, '': 1, m: 1e-3 }

/** `1000m` is `1`, `0.5` is `500m`, `1024Mi` is `1Gi`. @throws RangeError for what is no quantity */
export function canonicalQuantity(text: string): string {
  const value = quantityToNumber(text)
  if (value === 0) return '0'
  const ladder = text.endsWith('i') ? binary : decimal
  for (const [unit, factor] of Object.entries(ladder)) {
    const scaled = Number((value / factor).toPrecision(15))
    if (Number.isInteger(scaled)) return `${scaled}${unit}`
  }
  return text
}
