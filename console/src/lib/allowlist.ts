/** Rules of an allowlist while they are edited. Pure. */
import { texts } from '../texts.ts'

type Rule = { cidr: string; label?: string | undefined }

/** A rule in a form; its key stays while it is edited. */
export type Draft = { key: number; cidr: string; label: string }

export const mostRules = 50

const octet = '(?:25[0-5]|2[0-4]\\d|1?\\d?\\d)'
const pattern = new RegExp(`^${octet}(?:\\.${octet}){3}(?:/(?:3[0-2]|[12]?\\d))?$`)

/** What is wrong with an address or block; undefined if nothing is. */
export function faultOf(cidr: string): string | undefined {
  if (cidr.trim() === '') return texts.access.empty
  return pattern.test(cidr.trim()) ? undefined : texts.access.invalid
}

export const draftsOf = (rules: readonly Rule[]): Draft[] =>
  rules.map(({ cidr, label = '' }, key) => ({ key, cidr, label }))

export const rulesOf = (drafts: readonly Draft[]): { cidr: string; label?: string }[] =>
  drafts.map(({ cidr, label }) => ({ cidr: cidr.trim(), ...(label.trim() === '' ? {} : { label: label.trim() }) }))

const withLength = (cidr: string): string => (cidr.includes('/') ? cidr : `${cidr}/32`)

/** Adds an address unless a rule names it. */
export function withAddress(drafts: readonly Draft[], address: string, label: string): Draft[] {
  if (drafts.some(({ cidr }) => withLength(cidr.trim()) === withLength(address))) return [...drafts]
  const key = Math.max(-1, ...drafts.map(draft => draft.key)) + 1
  return [...drafts, { key, cidr: address, label }]
}

/** What saving would change, for the user to see before. */
export function changesOf(before: readonly Rule[], drafts: readonly Draft[]): { added: string[]; removed: string[] } {
  const had = new Set(before.map(({ cidr }) => withLength(cidr)))
  const has = new Set(rulesOf(drafts).map(({ cidr }) => withLength(cidr)))
  return { added: [...has].filter(cidr => !had.has(cidr)), removed: [...had].filter(cidr => !has.has(cidr)) }
}

export const isSame = (before: readonly Rule[], drafts: readonly Draft[]): boolean =>
  JSON.stringify(before.map(({ cidr, label = '' }) => [withLength(cidr), label])) ===
  JSON.stringify(drafts.map(({ cidr, label }) => [withLength(cidr.trim()), label.trim()]))
