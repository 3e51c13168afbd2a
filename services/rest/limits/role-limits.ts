/**
 * Limits for a role's requests, as `role-limits` configures them: `web_anon rows=1000 cost=50000 concurrency=20, *
 * rows=10000`. Pure.
 */

export type RoleLimits = {
  /** The maximum rows of a response, and the maximum rows that a write affects. */
  readonly rows?: number
  /** The maximum cost, as EXPLAIN reports it. */
  readonly cost?: number
  /** The maximum concurrent requests. */
  readonly concurrency?: number
}

const names = ['rows', 'cost', 'concurrency'] as const
const isName = (text: string): text is (typeof names)[number] => names.some(name => name === text)

/** Applies to every role that has no limit of its own. */
const anyRole = '*'
const largest = 1_000_000_000_000

/** Each limit occurs at most once, and is at least 1. */
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

/** The limits by role. Undefined if the text is invalid. */
export function parseRoleLimits(text: string): ReadonlyMap<string, RoleLimits> | undefined {
  const found = new Map<string, RoleLimits>()
  for (const entry of text.split(',')) {
    const one = parseOne(entry)
    if (one === undefined || found.has(one[0])) return undefined
    found.set(...one)
  }
  return found
}

/** Returns the role's own limits. Where the role has none, returns the limits of all roles. */
export const limitsOf = (limits: ReadonlyMap<string, RoleLimits>, role: string): RoleLimits => ({
  ...limits.get(anyRole),
  ...limits.get(role),
})
