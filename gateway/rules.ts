/** Allowlists as sorted address ranges that do not touch, so that a check is one binary search. Pure. */
import { maskCidr, parseAddress, parseCidr } from '../values/cidr.ts'

export type CompiledRules = {
  /** The rules as masked CIDR blocks, without duplicates. */
  rules: readonly string[]
  /** The first and the last address of each range alternately, ascending. */
  ranges: Uint32Array
}

export function compileRules(texts: readonly string[]): CompiledRules {
  const rules = [...new Set(texts.map(maskCidr).filter(rule => rule !== undefined))]
  return { rules, ranges: rangesOf(rules) }
}

/** Whether a normalised address is in one of the ranges. False for anything but IPv4. */
export function isAdmitted({ ranges }: CompiledRules, address: string): boolean {
  const number = parseAddress(address)
  return number !== undefined && isInside(ranges, number)
}

function rangesOf(rules: readonly string[]): Uint32Array {
  const blocks = rules.map(parseCidr).filter(block => block !== undefined)
  const ranges = blocks.map(({ network, prefix }) => ({ first: network, last: network + 2 ** (32 - prefix) - 1 }))
  ranges.sort((left, right) => left.first - right.first)
  const merged: { first: number; last: number }[] = []
  for (const range of ranges) {
    const previous = merged.at(-1)
    if (previous && range.first <= previous.last + 1) previous.last = Math.max(previous.last, range.last)
    else merged.push({ ...range })
  }
  return Uint32Array.from(merged.flatMap(({ first, last }) => [first, last]))
}

function isInside(ranges: Uint32Array, address: number): boolean {
  let low = 0
  let high = ranges.length / 2
  while (low < high) {
    const middle = (low + high) >>> 1
    if (address < (ranges[middle * 2] ?? 0)) high = middle
    else if (address > (ranges[middle * 2 + 1] ?? 0)) low = middle + 1
    else return true
  }
  return false
}
