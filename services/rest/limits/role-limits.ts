/**
 * Limits for requests of a role, as `role-limits` configures them: `web_anon rows=1000 cost=50000 concurrency=20, *
 * rows=10000`. Pure.
 */

export type RoleLimits = {
  /** Rows of a response, and rows affected by a write. */
  readonly rows?: number
  /** As EXPLAIN reports it. */
  readonly cost?: number
  /** Concurrent requests. */
  readonly concurrency?: number
}

const names = ['rows', 'cost', 'concurrency'] as const
const isName = (text: string): text is (typeof names)[number] => names.some(name => name === text)

/** Every role without its own limit. */
const anyRole = '*'
const largest = 1_000_000_000_000

/** Each limit once, of at least 1. */
function parseOne(entry: string): readonly [role: string, RoleLimits] | undefined {
  const [, role, list] = /^(\S.*?)((?:\s+\w+=\d{1,13})+)$/.exec(entry.trim()) ?? []
  if (role === undefined || list === undefined || role.includes('=')) return undefined
  const limits: { -readonly [name in keyof RoleLimits]: RoleLimits[name] } = {}
  for (const pair of list.trim().split(/\s+/)) {
    const [name = '', digits = ''] = pair.split('=')
    const value = Number(digits)
    if (!isName(name) || limits[name] !== undefined || value < 1 || value > largest) return undefined
    limits[name] = value
  }
  return [role, limits]
}

/** By role; undefined if the text is invalid. */
export function parseRoleLimits(text: string): ReadonlyMap<string, RoleLimits> | undefined {
  const found = new Map<string, RoleLimits>()
  for (const entry of text.split(',')) {
    const one = parseOne(entry)
    if (one === undefined || found.has(one[0])) return undefined
    found.set(...one)
  }
  return found
}

/** The role's own limits, and for missing ones those of all roles. */
export const limitsOf = (limits: ReadonlyMap<string, RoleLimits>, role: string): RoleLimits => ({
  ...limits.get(anyRole),
  ...limits.get(role),
})
