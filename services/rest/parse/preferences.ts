/** The Prefer header (RFC 7240): known preferences, and separately unknown preferences. */

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
  /** Unknown preferences. */
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

/** The first of several values of a preference decides. For time zones, this includes unknown values. */
export function parsePreferences(header: string | undefined, timeZones: TimeZones): Preferences {
  if (header === undefined) return { ...none, invalid: [] }
  const found = new Map<string, string>()
  const invalid: string[] = []
  const preferences = header.split(',').map(part => part.trim())
  const zone = preferences.find(preference => preference.startsWith('timezone='))?.slice('timezone='.length) ?? ''
  for (const preference of preferences) {
    if (preference === '') continue
    const equals = preference.indexOf('=')
    const [key, value] = equals === -1 ? [preference, ''] : [preference.slice(0, equals), preference.slice(equals + 1)]
    const known =
      (Object.hasOwn(choices, key) && choices[key]?.includes(value)) ||
      (key === 'timezone' && equals !== -1 && (timeZones === 'any' || timeZones.has(zone))) ||
      (key === 'max-affected' && /^[0-9]{1,9}$/.test(value))
    if (!known) invalid.push(preference)
    else if (!found.has(key)) found.set(key, value)
  }
  const chosen = {
    ...Object.fromEntries(Object.keys(none).map(key => [key, found.get(key)])),
    maxAffected: found.has('max-affected') ? Number(found.get('max-affected')) : undefined,
  } as Omit<Preferences, 'invalid'> // Each value was found in `choices` above.
  return { ...chosen, invalid }
}

/** `Preference-Applied` with the applied preferences, in a fixed order. */
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
