import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { column, keys, table, toOne } from '../testing/openapi.ts'
import { refusal } from '../testing/parsing.ts'
import { cacheOf, own, planned, sampleCache } from '../testing/schema-cache.ts'
import type { PlanSettings } from './context.ts'
import type { ReadNode } from './types.ts'

function read(target: string, settings: Partial<PlanSettings> = {}, range?: string): ReadNode {
  const found = planned(`GET ${target}`, { headers: { range } }, sampleCache, settings)
  if (found.kind !== 'read') throw new Error(`a ${found.kind} is no read`)
  return found.read
}
const code = (target: string, settings: Partial<PlanSettings> = {}) => refusal(() => read(target, settings)).code

/** All aliases of rows in a plan's SQL. */
const aliases = (node: ReadNode): string[] => [
  node.alias,
  ...node.select.flatMap(item =>
    item.kind === 'column'
      ? []
      : [item.alias, ...(item.join.kind === 'junction' ? [item.join.alias] : []), ...aliases(item.node)],
  ),
]

describe('a read', () => {
  test("has each relation's parameters in its node", () => {
    const target =
      '/projects?select=id,c:clients!inner(name),tasks(id,projects(id))&id=eq.1&c.name=eq.x&tasks.projects.id=gt.5' +
      '&tasks.or=(id.eq.1)&order=id&tasks.order=name.desc&limit=5&tasks.limit=2&tasks.offset=1&tasks.projects.limit=3'
    expect(read(target)).toMatchObject({
      relation: own('projects'),
      ...{
        conditions: [{ field: { name: 'id' } }],
        order: [{ field: { name: 'id' } }],
        range: { offset: 0, limit: 5 },
      },
      select: [
        { kind: 'column' },
        { name: 'c', toOne: true, inner: true, node: { conditions: [{ operation: { value: 'x' } }] } },
        {
          ...{ name: 'tasks', toOne: false, inner: false, join: { kind: 'columns', columns: [['id', 'project_id']] } },
          node: {
            conditions: [{ kind: 'group', operator: 'or' }],
            ...{ order: [{ direction: 'desc' }], range: { offset: 1, limit: 2 } },
            select: [{}, { node: { conditions: [{ operation: { value: '5' } }], range: { limit: 3 } } }],
          },
        },
      ],
    })
  })

  test('joins through junctions and functions', () => {
    expect(read('/projects?select=users(*),newest_task(*)').select).toMatchObject([
      {
        toOne: false,
        join: { kind: 'junction', table: own('users_projects'), sourceColumns: [['id', 'project_id']] },
      },
      { toOne: true, join: { kind: 'function', function: own('newest_task'), argument: own('projects') } },
    ])
  })

  test.each([
    'clients.id=eq.1',
    'clients.order=id',
    'clients.limit=1',
    'clients.and=(id.eq.1)',
    'order=clients(id)',
    '__proto__.limit=1',
  ])('with a relation that is not embedded gets RST108: %s', query => {
    expect(code(`/projects?${query}`)).toBe('RST108')
    const renamed = query.replace('clients', 'tasks')
    expect(code(`/projects?select=clients(*)&${renamed}`)).toBe('RST108')
  })

  test("through a junction is ordered by the junction's key, unless it is grouped or has another order", () => {
    const order = (select: string) => {
      const [item] = read(`/projects?select=${select}`).select
      return item?.kind === 'embedded' ? item.node.order.map(({ field }) => field.name) : undefined
    }
    expect(order('users(name)')).toEqual(['id'])
    expect(order('users(name)&users.order=name')).toEqual(['name'])
    expect(order('users(name,count())')).toEqual([])
    // This is an aggregate of the row, not a column.
    expect(order('users(count)')).toEqual([])
    expect(order('tasks(name)')).toEqual([])
  })

  test('uses the first order, and the last limit and offset', () => {
    expect(read('/projects?order=id&order=name&limit=1&limit=2&offset=3&offset=4')).toMatchObject({
      ...{ order: [{ field: { name: 'id' } }], range: { offset: 4, limit: 2 } },
    })
  })

  test('has the rows that query, header and configuration all include', () => {
    expect(read('/projects?limit=10&offset=2', {}, '5-6').range).toEqual({ offset: 5, limit: 2 })
    expect(read('/projects', { maximumRows: 3 }, '5-').range).toEqual({ offset: 5, limit: 3 })
    expect(read('/projects?select=tasks(*)', { maximumRows: 3 }, '5-').select).toMatchObject([
      { node: { range: { offset: 0, limit: 3 } } },
    ])
    expect(code('/projects?limit=-1')).toBe('RST103')
    expect(read('/projects?select=tasks(*)&tasks.limit=-1').select).toMatchObject([{ node: { range: { limit: -1 } } }])
  })

  test('orders only by a to-one embedding', () => {
    expect(read('/projects?select=c:clients(id)&order=c(name).desc').order).toMatchObject([
      { field: { name: 'name' }, child: 'projects_c_1', direction: 'desc' },
    ])
    expect(refusal(() => read('/projects?select=tasks(id)&order=tasks(id)'))).toMatchObject({
      ...{ status: 400, code: 'RST118', message: "A related order on 'tasks' is not possible" },
      details: "'projects' and 'tasks' do not form a many-to-one or one-to-one relationship",
    })
  })

  test('allows only null checks on an embedding', () => {
    const conditions = (filter: string) => read(`/projects?select=clients(id)&${filter}`).conditions
    expect(conditions('clients=is.null')).toMatchObject([{ kind: 'embedded', isNull: true }])
    expect(conditions('clients=not.is.null')).toMatchObject([{ kind: 'embedded', isNull: false }])
    expect(conditions('clients=is.not_null')).toMatchObject([{ isNull: false }])
    expect(conditions('clients=not.is.not_null')).toMatchObject([{ isNull: true }])
    expect(conditions('or=(clients.is.null,id.eq.1)')).toMatchObject([{ members: [{ kind: 'embedded' }, {}] }])
    const refused = ['clients=eq.1', 'clients=is.true', 'or=(clients.eq.1)', 'clients=in.(1)']
    for (const wrong of [...refused, 'clients=eq.null', 'clients=eq.not_null']) {
      expect(refusal(() => conditions(wrong))).toMatchObject({ status: 400, code: 'RST120' })
    }
    expect(conditions('clients->x=is.null')).toMatchObject([{ kind: 'filter', field: { name: 'clients' } }])
    // Other conditions apply to a column with the embedding's name.
    expect(read('/projects?select=name:clients(id)&name=eq.x').conditions).toMatchObject([{ kind: 'filter' }])
  })

  test('has aggregates if they are enabled, and not in to-many spreads', () => {
    expect(read('/projects?select=id.sum(),count(),...clients(id.max())').select).toHaveLength(3)
    for (const some of ['id.sum()', 'count()', 'tasks(count())', '...clients(id.max())']) {
      expect(code(`/projects?select=${some}`, { aggregatesEnabled: false })).toBe('RST123')
    }
    expect(read('/projects?select=id', { aggregatesEnabled: false }).select).toHaveLength(1)
    for (const some of ['...tasks(id.max())', '...tasks(count())', '...tasks(...projects(id.sum()))']) {
      expect(refusal(() => read(`/projects?select=${some}`))).toMatchObject({ status: 400, code: 'RST127' })
    }
    expect(read('/projects?select=...tasks(projects(id.sum()))').select).toHaveLength(1)
  })

  test('lists the columns in a spread, and if a star would hide a conversion', () => {
    const names = (target: string) =>
      read(target).select.map(item => (item.kind === 'column' ? item.field.name : item.name)) // selected
    expect(names('/tasks')).toEqual(['*'])
    expect(names('/projects')).toEqual(['id', 'name', 'client_id', 'data', 'tags', 'color', 'search'])
    expect(read('/projects?select=...clients(*)').select).toMatchObject([
      { spread: true, node: { select: [{ field: { name: 'id' } }, { field: { name: 'name' } }] } },
    ])
  })

  test('converts a domain, but not values inside it', () => {
    const field = (target: string) => read(target).select[0]
    expect(field('/projects?select=color')).toMatchObject({
      field: { toOutput: own('color_to_json'), baseType: 'integer' },
    })
    expect(field('/projects?select=color->x')).toMatchObject({ field: { toOutput: undefined } })
    expect(read('/projects?select=id&color->x=eq.red').conditions).toMatchObject([{ field: { fromText: undefined } }])
    // The value is unconverted, as in JSON.
    const csv = planned('GET /projects?select=color', { headers: { accept: 'text/csv' } })
    expect(csv.kind === 'read' && csv.read.select).toMatchObject([{ field: { toOutput: own('color_to_json') } }])
    expect(read('/projects?select=id&color=eq.red').conditions).toMatchObject([
      { field: { fromText: own('color_from_text') } },
    ])
  })
})

describe('aliases', () => {
  const name = fc.oneof(
    fc.constantFrom('x', 'rst_rows', 'rst_body', 'clients', 'projects', 'projects_x', 'x_1', 'rst_relation_1'),
    fc.string({ unit: fc.constantFrom('a', 'é'), minLength: 28, maxLength: 70 }),
  )
  const item: fc.Arbitrary<string> = fc
    .tuple(name, fc.constantFrom('clients(id)', 'tasks(id,x:projects(id))', 'users(*)'))
    .map(([alias, target]) => `${alias}:${target}`)

  test("are unique, within Postgres's name length", () => {
    fc.assert(
      fc.property(fc.array(item, { maxLength: 5 }), items => {
        const found = aliases(read(`/projects?select=${items.join()}`))
        expect(new Set(found).size).toBe(found.length)
        for (const alias of found) expect(Buffer.byteLength(alias)).toBeLessThanOrEqual(63)
        // The service's statements use such names for other objects.
        expect(found.filter(alias => /^rst_(?!relation_)/.test(alias))).toEqual([])
      }),
    )
  })

  test('are relation names if no other alias has this name and the name is short enough', () => {
    const aliasOf = (name: string) => {
      const found = planned(`GET /${name}`, {}, cacheOf({ tables: [table(name, [column('id', 'integer')])] }))
      return found.kind === 'read' && found.read.alias
    }
    const most = 't'.repeat(63)
    expect([aliasOf('films'), aliasOf(most), aliasOf('x_rst_')]).toEqual(['films', most, 'x_rst_'])
    expect([aliasOf(`${most}t`), aliasOf('rst_rows')]).toEqual(['rst_relation_0', 'rst_relation_0'])
  })

  test('differ for relations with long names', () => {
    const [long, longer] = ['t'.repeat(63), `${'t'.repeat(62)}u`]
    const relationships = [
      toOne(long, longer, [['id', 'id']]),
      keys(longer, long, { kind: 'one-to-many', constraint: 'k', columns: [['id', 'id']] }),
    ]
    const cache = cacheOf({ tables: [table(long, [column('id', 'integer')])], relationships })
    const found = planned(`GET /${long}?select=${longer}(${long}(id))`, {}, cache)
    const truncated = (found.kind === 'read' ? aliases(found.read) : []).map(alias =>
      Buffer.from(alias).subarray(0, 63).toString(),
    )
    expect(new Set(truncated).size).toBe(5)
  })

  test('are unique for a hundred embeddings, and more embeddings are refused', () => {
    expect(read(`/projects?select=${'tasks(),'.repeat(100)}id`).select).toHaveLength(101)
    const error = refusal(() => read(`/projects?select=${'tasks(),'.repeat(101)}id`))
    expect(error).toMatchObject({ status: 400, code: 'RST100' })
    expect(error.message).toContain('100')
  })
})
