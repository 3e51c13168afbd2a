import { describe, expect, test } from 'vitest'
import { appliedPreferences, type Preferences, parsePreferences } from './preferences.ts'

const zones = new Set(['Europe/Berlin', 'UTC'])
const read = (header: string | undefined) => {
  const { invalid: _, ...preferences } = parsePreferences(header, zones)
  return Object.fromEntries(Object.entries(preferences).filter(([, value]) => value !== undefined))
}

describe('Prefer', () => {
  test.each<[string | undefined, Partial<Preferences>]>([
    [undefined, {}],
    ['', {}],
    ['return=representation', { return: 'representation' }],
    ['return=minimal', { return: 'minimal' }],
    ['return=headers-only', { return: 'headers-only' }],
    ['count=exact', { count: 'exact' }],
    ['count=planned', { count: 'planned' }],
    ['count=estimated', { count: 'estimated' }],
    ['resolution=merge-duplicates', { resolution: 'merge-duplicates' }],
    ['resolution=ignore-duplicates', { resolution: 'ignore-duplicates' }],
    ['missing=default', { missing: 'default' }],
    ['missing=null', { missing: 'null' }],
    ['tx=commit', { tx: 'commit' }],
    ['tx=rollback', { tx: 'rollback' }],
    ['handling=strict', { handling: 'strict' }],
    ['handling=lenient', { handling: 'lenient' }],
    ['timezone=Europe/Berlin', { timezone: 'Europe/Berlin' }],
    ['timezone=Mars', {}],
    ['max-affected=10', { maxAffected: 10 }],
    ['max-affected=0', { maxAffected: 0 }],
    ['max-affected=-1', {}],
    ['max-affected=', {}],
    ['max-affected=9999999999', {}],
    ['count=none', {}],
    ['constructor=1, __proto__=x, toString=', {}],
    [' return=minimal ,count=exact,', { return: 'minimal', count: 'exact' }],
    ['return=minimal, return=representation', { return: 'minimal' }],
    ['return=what, return=representation', { return: 'representation' }],
  ])('%j', (header, expected) => {
    expect(read(header)).toEqual(expected)
  })

  test.each<[string | undefined, string[]]>([
    [undefined, []],
    ['handling=strict, timezone=UTC', []],
    ['handling=strict,,', []],
    ['a=UTC, count=7', ['a=UTC', 'count=7']],
    ['a=b, count=exact, timezone=Mars, constructor', ['a=b', 'timezone=Mars', 'constructor']],
  ])('returns the unknown preferences in %j', (header, invalid) => {
    expect(parsePreferences(header, zones).invalid).toEqual(invalid)
  })
})

test.each(['timezone=+02:00', 'timezone=-7', 'timezone=Mars', 'timezone='])('%s is passed to Postgres', header => {
  const { timezone, invalid } = parsePreferences(header, 'any')
  expect([timezone, invalid]).toEqual([header.slice('timezone='.length), []])
})

test.each<[Partial<Preferences>, string | undefined]>([
  [{}, undefined],
  [{ count: 'exact' }, 'count=exact'],
  [
    { count: 'exact', return: 'minimal', resolution: 'merge-duplicates' },
    'resolution=merge-duplicates, return=minimal, count=exact',
  ],
  [{ maxAffected: 5 }, undefined],
  [{ handling: 'strict' }, 'handling=strict'],
  [
    { maxAffected: 0, handling: 'strict', timezone: 'UTC', tx: 'commit', missing: 'null' },
    'missing=null, tx=commit, handling=strict, timezone=UTC, max-affected=0',
  ],
])('%j is applied as %s', (preferences, header) => {
  expect(appliedPreferences(preferences)).toBe(header)
})
