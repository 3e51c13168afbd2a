/** Validates and compares the allowlist rules of a form. Pure. */
import { texts } from '../texts.ts'

type Rule = { cidr: string; label?: string | undefined }

/** A rule in the form. Its key does not change while the user edits the rule. */
export type Draft = { key: number; cidr: string; label: string }

export const mostRules = 50

const octet = '(?:25[0-5]|2[0-4]\\d|1?\\d?\\d)'
const pattern = new RegExp(`^${octet}(?:\\.${octet}){3}(?:/(?:3[0-2]|[12]?\\d))?$`)

/** Returns the error message for an address or CIDR block. Returns undefined if `cidr` is valid. */
export function faultOf(cidr: string): string | undefined {
  if (cidr.trim() === '') return texts.access.empty
  return pattern.test(cidr.trim()) ? undefined : texts.access.invalid
}

export const draftsOf = (rules: readonly Rule[]): Draft[] =>
  rules.map(({ cidr, label = '' }, key) => ({ key, cidr, label }))

export const rulesOf = (drafts: readonly Draft[]): { cidr: string; label?: string }[] =>
  drafts.map(({ cidr, label }) => ({ cidr: cidr.trim(), ...(label.trim() === '' ? {} : { label: label.trim() }) }))

const withLength = (cidr: string): string => (cidr.includes('/') ? cidr : `${cidr}/32`)

/** Adds a rule for the address, unless a rule for it already exists. */
export function withAddress(drafts: readonly Draft[], address: string, label: string): Draft[] {
  if (drafts.some(({ cidr }) => withLength(cidr.trim()) === withLength(address))) return [...drafts]
  const key = Math.max(-1, ...drafts.map(draft => draft.key)) + 1
  return [...drafts, { key, cidr: address, label }]
}

/** Returns the added and removed addresses of the form, compared with the saved rules. */
export function changesOf(before: readonly Rule[], drafts: readonly Draft[]): { added: string[]; removed: string[] } {
  const oldCidrs = new Set(before.map(({ cidr }) => withLength(cidr)))
  const newCidrs = new Set(rulesOf(drafts).map(({ cidr }) => withLength(cidr)))
  return {
    added: [...newCidrs].filter(cidr => !oldCidrs.has(cidr)),
    removed: [...oldCidrs].filter(cidr => !newCidrs.has(cidr)),
  }
}

export const isSame = (before: readonly Rule[], drafts: readonly Draft[]): boolean =>
  JSON.stringify(before.map(({ cidr, label = '' }) => [withLength(cidr), label])) ===
  JSON.stringify(drafts.map(({ cidr, label }) => [withLength(cidr.trim()), label.trim()]))
