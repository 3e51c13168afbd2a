/** Cached decisions are valid only while the facts that they depend on are unchanged. */
import { expect, test } from 'vitest'
import { readsOnly } from './decide.ts'
import { createDecisions } from './decisions.ts'
import type { CatalogueFacts, VolatileFunction } from './facts.ts'

const volatile = (name: string): VolatileFunction => ({
  schema: 'public',
  name,
  fewest: 0,
  most: 0,
  extension: null,
  takesRow: false,
})

const factsWith = (functions: readonly VolatileFunction[], changed: Partial<CatalogueFacts> = {}): CatalogueFacts => ({
  searchPath: ['pg_catalog', 'public'],
  functions: new Set(),
  volatile: new Map(functions.map(one => [one.name, [one]])),
  operators: new Map(),
  ownOperators: new Set(),
  casts: new Map(),
  readableSettings: new Set(),
  hasHiddenSettings: false,
  secrets: new Set(),
  guardedColumns: new Map(),
  revealing: { views: new Map(), functions: new Map() },
  isPowerful: false,
  views: new Map(),
  ...changed,
})
const writes = { allowWrites: true, allowPrivilegedLogin: false }
const withoutVolatile = factsWith([])

test('checks a statement once while nothing changes, and looks up its functions each time', async () => {
  const decisions = createDecisions()
  const requested: (readonly string[])[] = []
  const of = (query: string) =>
    decisions.of(query, readsOnly, async calls => {
      requested.push(calls)
      return withoutVolatile
    })
  const first = await of('SELECT f(), g() -- once ;')
  expect(first).toMatchObject({ decision: { mode: 'read' }, statement: { class: 'select', hasLimit: false } })
  expect(await of('SELECT f(), g() -- once ;')).toBe(first)
  expect(requested).toEqual([
    ['f', 'g'],
    ['f', 'g'],
  ])
  expect(await of('SELECT f(), g() -- twice ;')).not.toBe(first)
  const long = `SELECT 1 -- ${'x'.repeat(2_000)}`
  expect(await of(long)).not.toBe(await of(long))
})

test('a change of facts, settings or database causes a new check', async () => {
  const decisions = createDecisions()
  const of = (facts: CatalogueFacts, permissions = readsOnly) =>
    decisions.of('SELECT f()', permissions, async () => facts)
  expect((await of(withoutVolatile)).decision.mode).toBe('read')
  await expect(of(factsWith([volatile('f')]))).rejects.toThrow('VOLATILE')
  // A refusal is not cached, and does not replace a cached decision.
  expect((await of(withoutVolatile)).decision.mode).toBe('read')
  expect((await of(factsWith([volatile('f')]), writes)).decision.mode).toBe('write')
  await expect(of(factsWith([volatile('f')], { isPowerful: true }), writes)).rejects.toThrow('superuser')
  await expect(of(factsWith([volatile('f')]), { ...readsOnly })).rejects.toThrow('VOLATILE')
})
