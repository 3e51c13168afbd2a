/** The Prefer header (RFC 7240): what a client would like, told apart from what nobody knows. */

export type TimeZones = ReadonlySet<string> | 'any'

export type Preferences = {
  readonly resolution: 'merge-duplicates' | 'ignore-duplicates' | undefined
  readonly return: 'representation' | 'headers-only' | 'minimal' | undefined
  readonly count: 'exact' | 'planned' | 'estimated' | undefined
  readonly tx: 'commit' | 'rollback' | undefined
  readonly missing: 'default' | 'null' | undefined
  readonly handling: 'strict' | 'lenient' | undefined
  readonly timezone: string | undefined
  readonly maxAffected: number | undefined
  /** What nobody knows. */
  readonly invalid: readonly string[]
}

const choices: Record<string, readonly string[]> = {
  resolution: ['merge-duplicates', 'ignore-duplicates'],
  return: ['representation', 'headers-only', 'minimal'],
  count: ['exact', 'planned', 'estimated'],
  tx: ['commit', 'rollback'],
  missing: ['default', 'null'],
  handling: ['strict', 'lenient'],
}

const none = {
  resolution: undefined,
  return: undefined,
  count: undefined,
  tx: undefined,
  missing: undefined,
  handling: undefined,
  timezone: undefined,
  maxAffected: undefined,
}

/** The first of several wishes for one thing counts; of time zones, even where nobody knows it. */
export function parsePreferences(header: string | undefined, timeZones: TimeZones): Preferences {
  if (header === undefined) return { ...none, invalid: [] }
  const found = new Map<string, string>()
  const invalid: string[] = []
  const wishes = header.split(',').map(part => part.trim())
  const zone = wishes.find(wish => wish.startsWith('timezone='))?.slice('timezone='.length) ?? ''
  for (const wish of wishes) {
    if (wish === '') continue
    const equals = wish.indexOf('=')
    const [key, value] = equals === -1 ? [wish, ''] : [wish.slice(0, equals), wish.slice(equals + 1)]
    const known =
      (Object.hasOwn(choices, key) && choices[key]?.includes(value)) ||
      (key === 'timezone' && equals !== -1 && (timeZones === 'any' || timeZones.has(zone))) ||
      (key === 'max-affected' && /^[0-9]{1,9}$/.test(value))
    if (!known) invalid.push(wish)
    else if (!found.has(key)) found.set(key, value)
  }
  const chosen = {
    ...Object.fromEntries(Object.keys(none).map(key => [key, found.get(key)])),
    maxAffected: found.has('max-affected') ? Number(found.get('max-affected')) : undefined,
  } as Omit<Preferences, 'invalid'> // each value was looked up in `choices` above
  return { ...chosen, invalid }
}

/** `Preference-Applied` for those that made a difference, in a fixed order. */
export function appliedPreferences(preferences: Partial<Preferences>): string | undefined {
  const { resolution, missing, return: represented, count, tx, handling, timezone, maxAffected } = preferences
  const applied = [
    resolution && `resolution=${resolution}`,
    missing && `missing=${missing}`,
    represented && `return=${represented}`,
    count && `count=${count}`,
    tx && `tx=${tx}`,
    handling && `handling=${handling}`,
    timezone && `timezone=${timezone}`,
    handling === 'strict' && maxAffected !== undefined && `max-affected=${maxAffected}`,
  ].filter(one => typeof one === 'string')
  return applied.length === 0 ? undefined : applied.join(', ')
}
