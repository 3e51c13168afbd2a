/** The Prefer header (RFC 7240): what a client would like, told apart from what nobody knows. */
// @ts-nocheck

import { invalidPreferences } from '../errors/catalogue.ts'

export type Preferences = {
  readonly resolution: 'merge-duplicates' | 'ignore-duplicates' | undefined
  readonly return: 'representation' | 'headers-only' | 'minimal' | undefined
  readonly count: 'exact' | 'planned' | 'estimated' | undefined
  readonly tx: 'commit' | 'rollback' | undefined
  readonly missing: 'default' | 'null' | undefined
  readonly handling: 'strict' | 'lenient' | undefined
  readonly timezone: string | undefined
  readonly maxAffected: number | undefined
}

const choices: Record<string, readonly string[]> = {
  resolution: ['merge-duplicates', 'ignore-duplicates'],
  return: ['representation', 'headers-only', 'minimal'],
  count: ['exact', 'planned', 'estimated'],
  tx: ['commit', 'rollback'],
  missing: ['default', 'null'],
  handling: ['strict', 'lenient'],
}

const none: Preferences = {
  resolution: undefined,
  return: undefined,
  count: undefined,
  tx: undefined,
  missing: undefined,
  handling: undefined,
  timezone: undefined,
  maxAffected: undefined,
}

/** The first of several wishes for one thing counts. With handling=strict, anything unknown is RST122. */
export function parsePreferences(header: string | undefined, timeZones: ReadonlySet<string>): Preferences {
  if (header === undefined) return none
  const found = new Map<string, string>()
  const invalid: string[] = []
  for (const wish of header.split(',').map(part => part.trim())) {
    if (wish === '') continue
    const equals = wish.indexOf('=')
    const [key, value] = equals === -1 ? [wish, ''] : [wish.slice(0, equals), wish.slice(equals + 1)]
    const known =
      (Object.hasOwn(choices, key) && choices[key]?.includes(value)) ||
      (key === 'timezone' && timeZones.has(value)) ||
      (key === 'max-affected' && /^[0-9]{1,9}$/.test(value))
    if (!known) invalid.push(wish)
    else if (!found.has(key)) found.set(key, value)
  }
  const preferences = {
    ...Object.fromEntries(Object.keys(none).map(key => [key, found.get(key)])),
    maxAffected: found.has('max-affected') ? Number(found.get('max-affected')) : undefined,
  } as Preferences // each value was looked up in `choices` above
  if (preferences.handling === 'strict' && invalid.length > 0) throw invalidPreferences(invalid)
  return preferences
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
