import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cpuTimeOf } from '../testing/cpu-time.ts'
import { type ForeignKey, keyRelationships, type RelationFacts, resolveOrigins, Shown } from './relationships.ts'
import type { Relationship } from './types.ts'
import type { ColumnOrigin } from './view-columns.ts'

/** A relation whose columns are named by their numbers: `c1`, `c2` and so on. */
const relation = (oid: number, name: string, primaryKey: number[] = [], isView = false): RelationFacts => ({
  ...{ oid, schema: 'test', name, isView, primaryKey },
  columnNames: new Map(Array.from({ length: 9 }, (_, index) => [index + 1, `c${index + 1}`])),
})
const key = (
  name: string,
  source: number,
  sourceColumns: number[],
  target: number,
  targetColumns: number[],
  isUnique = false,
): ForeignKey => ({ name, source, sourceColumns, target, targetColumns, isUnique })
const origin = (column: number, from: number, relationColumn: number): ColumnOrigin => ({
  ...{ column, relation: from, relationColumn },
})

type Views = Map<number, ColumnOrigin[]>
function found(relations: RelationFacts[], keys: ForeignKey[], views: Views = new Map()): Relationship[] {
  const facts = new Map(relations.map(one => [one.oid, one]))
  const shown = new Shown(views)
  const primaryKeys = new Map(
    relations.map(({ oid, isView, primaryKey }) => [oid, isView ? shown.primaryKey(oid, facts) : primaryKey]),
  )
  return keyRelationships(facts, keys, shown, primaryKeys)
}

/** A relationship as text: `source kind target on its columns`. */
const described = (list: readonly Relationship[]): string[] =>
  list
    .map(one => {
      if (one.kind === 'computed') return `${one.source.name} computed ${one.target.name}`
      const { cardinality } = one
      const on =
        cardinality.kind === 'many-to-many'
          ? `${cardinality.junction.table.name} ${cardinality.junction.sourceColumns.join('+')}/${cardinality.junction.targetColumns.join('+')}`
          : `${cardinality.constraint} ${cardinality.columns.map(pair => pair.join('=')).join('+')}`
      return `${one.source.name} ${cardinality.kind} ${one.target.name} on ${on}`
    })
    .sort()

describe('relationships of tables', () => {
  test('a key gives both directions', () => {
    const all = found([relation(1, 'tasks', [1]), relation(2, 'projects', [1])], [key('k', 1, [2], 2, [1])])
    expect(described(all)).toEqual(['projects one-to-many tasks on k c1=c2', 'tasks many-to-one projects on k c2=c1'])
    expect(all[0]).toMatchObject({ self: false, sourceIsView: false, targetIsView: false })
  })

  test('a unique key is one-to-one, and the relationship records the referenced side', () => {
    const all = found([relation(1, 'details', [1]), relation(2, 'items', [1])], [key('k', 1, [1], 2, [1], true)])
    expect(all.map(one => one.kind === 'keys' && one.cardinality)).toEqual([
      { kind: 'one-to-one', constraint: 'k', columns: [['c1', 'c1']], referenced: false },
      { kind: 'one-to-one', constraint: 'k', columns: [['c1', 'c1']], referenced: true },
    ])
  })

  test('a key of several columns keeps their order, and a key to its own table is marked', () => {
    expect(described(found([relation(1, 'a', [1, 2])], [key('k', 1, [4, 3], 1, [1, 2])]))).toEqual([
      'a many-to-one a on k c4=c1+c3=c2',
      'a one-to-many a on k c1=c4+c2=c3',
    ])
    expect(found([relation(1, 'a')], [key('k', 1, [4], 1, [1])]).every(one => one.self)).toBe(true)
  })

  test('two keys within a primary key are many-to-many', () => {
    const relations = [relation(1, 'roles', [1, 2]), relation(2, 'films', [1]), relation(3, 'actors', [1])]
    const all = found(relations, [key('f', 1, [1], 2, [1]), key('a', 1, [2], 3, [1])])
    expect(described(all).filter(one => one.includes('many-to-many'))).toEqual([
      'actors many-to-many films on roles c1,c2/c1,c1',
      'films many-to-many actors on roles c1,c1/c1,c2',
    ])
  })

  test.each([
    ['that are outside of the primary key', [1, 3], [key('f', 1, [1], 2, [1]), key('a', 1, [2], 3, [1])]],
    ['of a table without a primary key', [], [key('f', 1, [1], 2, [1]), key('a', 1, [2], 3, [1])]],
    ['of which one is unique', [1, 2], [key('f', 1, [1], 2, [1], true), key('a', 1, [2], 3, [1])]],
  ])('two keys %s are not', (_, primaryKey, keys) => {
    const all = found([relation(1, 'roles', primaryKey), relation(2, 'films', [1]), relation(3, 'actors', [1])], keys)
    expect(described(all).filter(one => one.includes('many-to-many'))).toEqual([])
  })

  test('two keys to the same relation are many-to-many with itself', () => {
    const all = found(
      [relation(1, 'follows', [1, 2]), relation(2, 'people', [1])],
      [key('a', 1, [1], 2, [1]), key('b', 1, [2], 2, [1])],
    )
    const many = all.filter(one => one.kind === 'keys' && one.cardinality.kind === 'many-to-many')
    expect(described(many)).toEqual([
      'people many-to-many people on follows c1,c1/c1,c2',
      'people many-to-many people on follows c1,c2/c1,c1',
    ])
    expect(many.every(one => one.self)).toBe(true)
  })

  test('a key to an unknown relation is omitted', () => {
    expect(found([relation(1, 'tasks')], [key('k', 1, [1], 99, [1]), key('l', 99, [1], 1, [1])])).toEqual([])
  })
})

describe('relationships of views', () => {
  const relations = [
    ...[relation(1, 'tasks', [1]), relation(2, 'projects', [1])],
    ...[relation(11, 'tasks_view', [], true), relation(12, 'projects_view', [], true)],
  ]
  const keys = [key('k', 1, [2], 2, [1])]

  test('a key is visible through each view with its columns, on both sides', () => {
    const views: Views = new Map([
      [11, [origin(5, 1, 2)]],
      [12, [origin(6, 2, 1)]],
    ])
    expect(described(found(relations, keys, views))).toEqual([
      'projects one-to-many tasks on k c1=c2',
      'projects one-to-many tasks_view on k c1=c5',
      'projects_view one-to-many tasks on k c6=c2',
      'projects_view one-to-many tasks_view on k c6=c5',
      'tasks many-to-one projects on k c2=c1',
      'tasks many-to-one projects_view on k c2=c6',
      'tasks_view many-to-one projects on k c5=c1',
      'tasks_view many-to-one projects_view on k c5=c6',
    ])
  })

  test('a key is not visible through a view with only some of its columns', () => {
    const views: Views = new Map([[11, [origin(1, 1, 2)]]])
    const both = [key('k', 1, [2, 3], 2, [1, 2])]
    expect(described(found(relations, both, views)).filter(one => one.includes('view'))).toEqual([])
  })

  test('a key is visible through a view of a view', () => {
    const views: Views = new Map([
      [11, [origin(5, 1, 2)]],
      [12, [origin(6, 11, 5)]],
    ])
    const all = described(found([...relations.slice(0, 3), relation(12, 'outer', [], true)], keys, views))
    expect(all).toContain('outer many-to-one projects on k c6=c1')
  })

  test('a column selected twice gives two relationships, up to a limit', () => {
    const views: Views = new Map([[11, [origin(5, 1, 2), origin(6, 1, 2)]]])
    expect(described(found(relations, keys, views)).filter(one => one.startsWith('tasks_view'))).toEqual([
      'tasks_view many-to-one projects on k c5=c1',
      'tasks_view many-to-one projects on k c6=c1',
    ])
    const many: Views = new Map([
      [11, Array.from({ length: 300 }, (_, index) => origin(index + 1, 1, (index % 3) + 1))],
    ])
    expect(found(relations, [key('k', 1, [1, 2, 3], 2, [1, 2, 3])], many).length).toBeLessThan(50)
  })

  test('junctions are visible through views with the full primary key', () => {
    const facts = [
      ...[relation(1, 'roles', [1, 2]), relation(2, 'films', [1]), relation(3, 'actors', [1])],
      ...[relation(11, 'roles_view', [], true), relation(12, 'films_only', [], true)],
    ]
    const both = [key('f', 1, [1], 2, [1]), key('a', 1, [2], 3, [1])]
    const views: Views = new Map([
      [11, [origin(3, 1, 1), origin(4, 1, 2)]],
      [12, [origin(1, 1, 1)]],
    ])
    const junctions = described(found(facts, both, views)).filter(one => one.includes('many-to-many'))
    expect(junctions).toContain('films many-to-many actors on roles_view c1,c3/c1,c4')
    expect(junctions.filter(one => one.includes('films_only'))).toEqual([])
  })
})

describe('the primary key of a view', () => {
  const facts = new Map(
    [relation(1, 'a', [1, 2]), relation(2, 'b', [1]), relation(11, 'v', [], true)].map(one => [one.oid, one]),
  )
  const of = (...origins: ColumnOrigin[]) => new Shown(new Map([[11, origins]])).primaryKey(11, facts)

  test("is its table's primary key if the view has all its columns, in the key's order", () => {
    expect(of(origin(7, 1, 2), origin(8, 1, 1))).toEqual([8, 7])
    expect(of(origin(7, 1, 2))).toEqual([])
    expect(of()).toEqual([])
    expect(of(origin(7, 1, 1), origin(8, 1, 1), origin(9, 1, 2))).toEqual([7, 9])
    expect(of(origin(7, 2, 1), origin(8, 1, 1), origin(9, 1, 2))).toEqual([7, 8, 9])
    expect(new Shown(new Map()).primaryKey(11, facts)).toEqual([])
  })
})

describe('any relations and keys', () => {
  const column = fc.integer({ min: 1, max: 4 })
  const tables = [1, 2, 3]
  const views = [11, 12, 13]
  const pairs = fc.uniqueArray(fc.tuple(column, column), { minLength: 1, maxLength: 2, selector: ([one]) => one })
  const anyKey = fc
    .tuple(fc.constantFrom(...tables), fc.constantFrom(...tables), pairs, fc.boolean(), fc.uuid())
    .map(([source, target, columns, isUnique, name]) =>
      key(
        name,
        source,
        columns.map(([one]) => one),
        target,
        columns.map(([, other]) => other),
        isUnique,
      ),
    )
  const anyOrigins = fc.uniqueArray(
    fc
      .tuple(column, fc.constantFrom(...tables, ...views), column)
      .map(([own, from, other]) => origin(own, from, other)),
    { selector: one => one.column },
  )
  const anyViews = fc
    .tuple(anyOrigins, anyOrigins, anyOrigins)
    .map(list => new Map(views.map((oid, index) => [oid, list[index] ?? []])))
  const anyPrimaryKey = fc.uniqueArray(column, { maxLength: 3 })

  test('give each relationship with its inverse, and only between known names', () => {
    fc.assert(
      fc.property(
        fc.array(anyKey, { maxLength: 4 }),
        anyViews,
        fc.array(anyPrimaryKey, { minLength: 3, maxLength: 3 }),
        (keys, origins, primaryKeys) => {
          const relations = [
            ...tables.map((oid, index) => relation(oid, `t${oid}`, primaryKeys[index])),
            ...views.map(oid => relation(oid, `v${oid}`, [], true)),
          ]
          const all = found(relations, keys, origins)
          const inverse: Record<string, string> = { 'many-to-one': 'one-to-many', 'one-to-many': 'many-to-one' }
          for (const one of all) {
            if (one.kind === 'computed') throw new Error('no function was given')
            const { cardinality } = one
            const turned = all.some(other => {
              if (other.kind === 'computed' || other.source.name !== one.target.name) return false
              if (other.target.name !== one.source.name) return false
              const { cardinality: its } = other
              if (cardinality.kind === 'many-to-many' || its.kind === 'many-to-many')
                return cardinality.kind === its.kind
              const back = its.columns.map(([source, target]) => `${target}=${source}`).join()
              const isBack = its.kind === (inverse[cardinality.kind] ?? cardinality.kind)
              return isBack && back === cardinality.columns.map(pair => pair.join('=')).join()
            })
            expect(turned).toBe(true)
            expect(JSON.stringify(one)).not.toContain('""')
          }
          for (const { name, source, target } of keys) {
            const direct = all.filter(
              one =>
                one.kind === 'keys' && one.cardinality.kind !== 'many-to-many' && one.cardinality.constraint === name,
            )
            expect(direct.some(one => one.source.name === `t${source}` && one.target.name === `t${target}`)).toBe(true)
          }
        },
      ),
    )
  })

  test('terminate, even if views form a cycle, and every table column exists', () => {
    fc.assert(
      fc.property(anyViews, origins => {
        const resolved = resolveOrigins(origins)
        for (const [view, list] of origins) {
          for (const { relation: from, relationColumn, column: own } of list) {
            expect(resolved.get(view)?.get(`${from}.${relationColumn}`)).toContain(own)
          }
        }
      }),
    )
  })
})

test('a long chain of views is resolved in limited time', () => {
  const length = 300
  const columns = Array.from({ length: 8 }, (_, index) => index + 1)
  const views: Views = new Map(
    Array.from({ length }, (_, index) => [index + 2, columns.map(column => origin(column, index + 1, column))]),
  )
  const spent = cpuTimeOf(() => expect(new Shown(views).views(1, [1, 2])).toHaveLength(length))
  expect(spent).toBeLessThan(3_000_000)
})
