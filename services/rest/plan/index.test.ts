import { describe, expect, test } from 'vitest'
import type { Routine } from '../../schema-cache/types.ts'
import { routine } from '../testing/openapi.ts'
import { refusal } from '../testing/parsing.ts'
import { cacheOf, own, planned, type Sent, sampleCache } from '../testing/schema-cache.ts'
import type { Plan } from './types.ts'

type WritePlan = Extract<Plan, { kind: 'write' }>

function write(line: string, body = '{"id":1,"name":"x"}', prefer?: string, more: Sent = {}): WritePlan {
  const found = planned(line, { body, headers: { prefer }, ...more })
  if (found.kind !== 'write') throw new Error(`a ${found.kind} is no write`)
  return found
}
const refused = (...args: Parameters<typeof write>) => refusal(() => write(...args))
const names = ({ write: one }: WritePlan) => (one.kind === 'delete' ? [] : one.source.columns.map(({ name }) => name))

test('an unknown relation gets RST205, with a suggestion', () => {
  expect(refusal(() => planned('GET /projets'))).toMatchObject({
    ...{ status: 404, code: 'RST205' },
    message: "Could not find the table 'test.projets' in the schema cache",
    hint: "Perhaps you meant the table 'test.projects'",
  })
  for (const line of ['GET /elephants', 'POST /elephants', 'PATCH /elephants', 'DELETE /elephants', 'GET /__proto__']) {
    expect(refusal(() => planned(line, { body: '{}' }))).toMatchObject({ code: 'RST205', hint: null })
  }
})

describe('a read', () => {
  test('by HEAD has no body, and its execution plan has none, either', () => {
    expect(planned('HEAD /projects')).toMatchObject({ headersOnly: true, body: { shape: { kind: 'none' } } })
    const plan = { headers: { accept: 'application/vnd.pgrst.plan' } }
    expect(planned('HEAD /projects', plan)).toMatchObject({ body: { shape: { kind: 'none' } } })
  })

  test('counts as the client prefers, up to the configured maximum', () => {
    const counted = planned('GET /projects', { headers: { prefer: 'count=planned' } }, sampleCache, { maximumRows: 7 })
    expect(counted).toMatchObject({ kind: 'read', count: 'planned', maximumRows: 7 })
  })

  test("uses the relation's handler only for full rows", () => {
    const headers = { accept: 'text/xml' }
    expect(planned('GET /clients', { headers })).toMatchObject({ body: { shape: { kind: 'handler' } } })
    expect(planned('GET /clients?select=*', { headers })).toMatchObject({ body: { shape: { kind: 'handler' } } })
    for (const select of ['id', 'x:*', '*,id', 'count()']) {
      expect(refusal(() => planned(`GET /clients?select=${select}`, { headers })).code).toMatch(/^RST10[07]$/)
    }
  })
})

describe('a PUT', () => {
  test('selects one row by its primary key', () => {
    expect(write('PUT /projects?id=eq.1').write).toMatchObject({
      ...{ kind: 'insert', isPut: true, onConflict: { columns: ['id'], resolution: 'merge' } },
      conditions: [{ field: { name: 'id' }, operation: { kind: 'compare', operator: 'eq', value: '1' } }],
    })
    const both = '/users_projects?project_id=eq.1&user_id=eq.2'
    expect(write(`PUT ${both}`, '{"project_id":1,"user_id":2}').write).toMatchObject({ conditions: [{}, {}] })
  })

  test.each([
    '/projects',
    '/projects?id=gt.1',
    '/projects?id=not.eq.1',
    '/projects?id=eq(any).{1}',
    '/projects?id=in.(1)',
    '/projects?id=is.null',
    '/projects?id->x=eq.1',
    '/projects?name=eq.x',
    '/projects?id=eq.1&name=eq.x',
    '/projects?id=eq.1&or=(name.eq.x)',
    '/projects?and=(id.eq.1)',
    '/users_projects?user_id=eq.1',
    '/users_projects?user_id=eq.1&user_id=eq.2',
    '/users_projects?user_id=eq.1&project_id=eq.1&role=eq.x',
    '/projects?id=eq.1&select=clients(name)&clients.name=eq.x',
    '/projects?id=eq.1&select=clients(name)&clients.or=(name.eq.x)',
    '/keyless',
    '/keyless?a=eq.1',
  ])('of %s is RST105', target => {
    expect(refused(`PUT ${target}`, '{}')).toMatchObject({
      ...{ status: 405, code: 'RST105' },
      message: "Filters must include all and only primary key columns with 'eq' operators",
    })
  })
})

describe('a call', () => {
  const returning = (returns: Routine['returns']) => cacheOf({ routines: [routine('f', [], { returns })] })
  const relationOf = (returns: Routine['returns']) => {
    const found = planned('GET /rpc/f?select=*', {}, returning(returns))
    return found.kind === 'call' && [found.read.relation, found.read.alias, found.read.select.length]
  }
  const record = { schema: 'pg_catalog', name: 'record' }

  test("reads the relation whose rows the function returns, or records, or the function's result", () => {
    expect(relationOf({ kind: 'composite', type: own('projects'), isAlias: false })).toEqual([
      ...[own('projects'), 'projects', 1],
    ])
    expect(relationOf({ kind: 'composite', type: record, isAlias: false })).toEqual([own('record'), 'f', 1])
    expect(relationOf({ kind: 'scalar', type: own('color') })).toEqual([own('f'), 'f', 1])
  })
  test('of an unknown relation keeps its star, but not next to an aggregate', () => {
    const select = (text: string) => {
      const found = planned(`GET /rpc/f?select=${text}`, {}, returning({ kind: 'scalar', type: own('color') }))
      return found.kind === 'call' ? found.read.select : undefined
    }
    expect(select('*')).toMatchObject([{ field: { name: '*' }, aggregate: undefined }])
    expect(select('*,count()')).toMatchObject([{ aggregate: { name: 'count' } }])
  })
})

describe('an insert', () => {
  const conflict = (line: string, prefer?: string) => {
    const { write: one } = write(line, '{"id":1}', prefer)
    return one.kind === 'insert' ? one.onConflict : undefined
  }

  test('is an upsert if the client prefers that and the relation has a key', () => {
    expect(conflict('POST /projects')).toBeUndefined()
    expect(conflict('POST /projects?on_conflict=name')).toBeUndefined()
    expect(conflict('POST /projects', 'resolution=merge-duplicates')).toEqual({ columns: ['id'], resolution: 'merge' })
    expect(conflict('POST /projects', 'resolution=ignore-duplicates')).toEqual({
      columns: ['id'],
      resolution: 'ignore',
    })
    expect(conflict('POST /projects?on_conflict=name,id', 'resolution=merge-duplicates')).toEqual({
      ...{ columns: ['name', 'id'], resolution: 'merge' },
    })
    expect(write('POST /keyless', '{"a":1}', 'resolution=merge-duplicates').write).toMatchObject({
      onConflict: undefined,
    })
  })

  test('is not filtered by the query string', () => {
    const { write: one, wants } = write('POST /projects?id=eq.1')
    expect([one, wants]).toMatchObject([{ kind: 'insert', conditions: [], isPut: false }, 'minimal'])
  })

  test("sets the body's columns, or the columns in `columns`", () => {
    expect(names(write('POST /projects'))).toEqual(['id', 'name'])
    expect(names(write('POST /projects', '[{"id":1},{"id":2}]'))).toEqual(['id'])
    expect(names(write('POST /projects?columns=name,"id",name'))).toEqual(['id', 'name'])
    expect(write('POST /projects', '{"color":"red"}').write).toMatchObject({
      source: { columns: [{ type: 'test.color', fromJson: own('color_from_json') }], useDefaults: false },
    })
    expect(write('POST /projects', '{}', 'missing=default').write).toMatchObject({ source: { useDefaults: true } })
  })

  test.each(['__proto__', 'constructor', 'nmae', ''])('with the unknown column %j gets RST204', name => {
    expect(refused('POST /projects', `{${JSON.stringify(name)}:1}`)).toMatchObject({
      ...{ status: 400, code: 'RST204' },
      message: `Could not find the '${name}' column of 'projects' in the schema cache`,
    })
    if (name !== '') expect(refused(`PATCH /projects?columns=${name}`).code).toBe('RST204')
  })

  test("returns the new row's location by its key", () => {
    expect(write('POST /users_projects?select=user_id', '{}', 'return=headers-only')).toMatchObject({
      ...{ locationKey: ['user_id', 'project_id'], returning: ['user_id', 'project_id'], wants: 'headers-only' },
    })
    expect(write('POST /projects')).toMatchObject({ locationKey: [], returning: [], body: { shape: { kind: 'none' } } })
    expect(write('PATCH /projects', '{}', 'return=headers-only').locationKey).toEqual([])
  })
})

describe('the written and returned columns', () => {
  test('are returned if the request selects, orders or joins by them', () => {
    const returning = (select: string) =>
      write(`PATCH /projects?select=${select}`, '{"name":"x"}', 'return=representation').returning
    expect(returning('id')).toEqual(['id'])
    expect(returning('id,data->a->>b')).toEqual(['id', 'data'])
    expect(returning('name,clients(*)')).toEqual(['name', 'client_id'])
    expect(returning('tasks(*)')).toEqual(['id'])
    expect(returning('users(*)')).toEqual(['id'])
    expect(returning('newest_task(*)')).toEqual('all')
    expect(returning('id&order=name')).toEqual(['id', 'name'])
    expect(returning('id,clients(id)&order=clients(name)')).toEqual(['id', 'client_id'])
    expect(write('PATCH /tasks', '{}', 'return=representation').returning).toBe('all')
  })

  test('are filtered once: the write filters the root, and the read filters the embeddings', () => {
    const root = 'id=eq.1&or=(id.eq.1)&limit=1&offset=3'
    const embedded = 'tasks.id=gt.1&tasks.or=(id.eq.1)&tasks.limit=2&tasks.offset=4'
    const target = `/projects?${root}&select=id,tasks(id)&${embedded}`
    expect(write(`PATCH ${target}`, '{}', 'return=representation')).toMatchObject({
      write: { kind: 'update', conditions: [{}, {}] },
      read: {
        ...{ conditions: [], range: { offset: 0, limit: undefined } },
        select: [{}, { node: { conditions: [{}, {}], range: { offset: 0, limit: undefined } } }],
      },
    })
    expect(write(`DELETE ${target}`)).toMatchObject({
      write: { kind: 'delete', conditions: [{}, {}] },
      read: { select: [] },
    })
  })

  test('are limited if handling is strict', () => {
    const strict = 'handling=strict, max-affected=3'
    expect(write('DELETE /projects', '', strict).maximumAffected).toBe(3)
    expect(write('PATCH /projects', '{}', strict).maximumAffected).toBe(3)
    expect(write('POST /projects', '{}', strict).maximumAffected).toBeUndefined()
    expect(write('DELETE /projects', '', 'max-affected=3').maximumAffected).toBeUndefined()
  })
})
