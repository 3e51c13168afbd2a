/** Kubernetes resource quantities: in the forms that crds/fields.ts lets in, and as a cluster may spell them. */

const factors: Record<string, number> = {
  '': 1,
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
}

/** The number that a quantity stands for: `500m` is 0.5. @throws RangeError for anything else */
export function quantityToNumber(quantity: string): number {
  const [, digits, suffix = ''] = /^([0-9]+(?:\.[0-9]+)?)(m|k|M|G|T|Ki|Mi|Gi|Ti)?$/.exec(quantity) ?? []
  const factor = factors[suffix]
  if (digits === undefined || factor === undefined) {
    throw new RangeError(`${JSON.stringify(quantity)} is not a resource quantity`)
  }
  return Number(digits) * factor
}

/** Whole bytes of a quantity, rounded up as Kubernetes does. @throws RangeError */
export const quantityToBytes = (quantity: string): number => Math.ceil(quantityToNumber(quantity))

const furtherFactors: Record<string, number> = {
  ...factors,
  n: 1e-9,
  u: 1e-6,
  P: 1e15,
  E: 1e18,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
}

/** Bytes of a quantity that others wrote (Kubernetes API reference, Quantity); undefined for what is none. */
export function bytesTold(quantity: string | undefined): number | undefined {
  const [, digits, suffix = '', exponent = '0'] =
    /^([0-9]+\.?[0-9]*|\.[0-9]+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,2}))?$/.exec(quantity ?? '') ?? []
  const factor = furtherFactors[suffix]
  return digits === undefined || factor === undefined
    ? undefined
    : Math.ceil(Number(digits) * factor * 10 ** Number(exponent))
}
