/** Verdicts that are kept: never longer than what they rest on. */
import { expect, test } from 'vitest'
import type { CatalogueFacts, VolatileFunction } from './facts.ts'
import { readsOnly } from './judge.ts'
import { createJudgements } from './judgements.ts'

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
  harmlessSettings: new Set(),
  hasHiddenSettings: false,
  secrets: new Set(),
  guardedColumns: new Map(),
  revealing: { views: new Map(), functions: new Map() },
  isPowerful: false,
  views: new Map(),
  ...changed,
})
const writes = { allowWrites: true, allowPrivilegedLogin: false }
const harmless = factsWith([])

test('a statement is judged once while nothing has changed, and the functions that it calls are asked for each time', async () => {
  const judgements = createJudgements()
  const asked: (readonly string[])[] = []
  const of = (query: string) =>
    judgements.of(query, readsOnly, async calls => {
      asked.push(calls)
      return harmless
    })
  const first = await of('SELECT f(), g() -- once ;')
  expect(first).toMatchObject({ verdict: { mode: 'read' }, statement: { class: 'select', hasLimit: false } })
  expect(await of('SELECT f(), g() -- once ;')).toBe(first)
  expect(asked).toEqual([
    ['f', 'g'],
    ['f', 'g'],
  ])
  expect(await of('SELECT f(), g() -- twice ;')).not.toBe(first)
  const long = `SELECT 1 -- ${'x'.repeat(2_000)}`
  expect(await of(long)).not.toBe(await of(long))
})

test('other facts, settings or databases have it judged anew', async () => {
  const judgements = createJudgements()
  const of = (facts: CatalogueFacts, permissions = readsOnly) =>
    judgements.of('SELECT f()', permissions, async () => facts)
  expect((await of(harmless)).verdict.mode).toBe('read')
  await expect(of(factsWith([volatile('f')]))).rejects.toThrow('VOLATILE')
  // A refusal does not replace what is kept, and is not kept itself.
  expect((await of(harmless)).verdict.mode).toBe('read')
  expect((await of(factsWith([volatile('f')]), writes)).verdict.mode).toBe('write')
  await expect(of(factsWith([volatile('f')], { isPowerful: true }), writes)).rejects.toThrow('superuser')
  await expect(of(factsWith([volatile('f')]), { ...readsOnly })).rejects.toThrow('VOLATILE')
})
