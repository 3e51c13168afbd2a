import { describe, expect, test } from 'vitest'
import { at, column, faults, parameter, relationships, rendered, routine, table, toOne } from '../../testing/openapi.ts'

const id = column('id', 'integer', { nullable: false })
const withReferences = (...names: string[]) => names.map(name => ({ $ref: `#/parameters/${name}` }))

describe('a table', () => {
  const children = table(
    'children',
    [id, column('name', 'text', { description: 'A name' }), column('parent', 'integer')],
    {
      description: 'Children\n\nof their parents\nonly',
      primaryKey: ['id'],
    },
  )
  const document = rendered({
    tables: [children],
    cache: relationships(toOne('children', 'parents', [['parent', 'id']])),
  })

  test('has a definition that includes its keys', () => {
    expect(at(document, 'definitions', 'children')).toEqual({
      type: 'object',
      description: 'Children\n\nof their parents\nonly',
      required: ['id'],
      properties: {
        id: { type: 'integer', format: 'int32', description: 'Note:\nThis is a Primary Key.<pk/>' },
        name: { type: 'string', format: 'text', description: 'A name' },
        parent: {
          type: 'integer',
          format: 'int32',
          description: "Note:\nThis is a Foreign Key to `parents.id`.<fk table='parents' column='id'/>",
        },
      },
    })
  })

  test('has a path with summary, description, parameters and responses', () => {
    const path = at(document, 'paths', '/children')
    const filters = withReferences('rowFilter.children.id', 'rowFilter.children.name', 'rowFilter.children.parent')
    expect(at(path, 'get')).toEqual({
      tags: ['children'],
      summary: 'Children',
      description: 'of their parents\nonly',
      parameters: [
        ...filters,
        ...withReferences('select', 'order', 'range', 'rangeUnit', 'offset', 'limit', 'preferCount'),
      ],
      responses: {
        200: { description: 'OK', schema: { type: 'array', items: { $ref: '#/definitions/children' } } },
        206: { description: 'Partial Content' },
      },
    })
    expect(at(path, 'post', 'parameters')).toEqual(withReferences('body.children', 'select', 'preferPost'))
    expect(at(path, 'post', 'responses')).toEqual({ 201: { description: 'Created' } })
    expect(at(path, 'patch', 'parameters')).toEqual([...filters, ...withReferences('body.children', 'preferReturn')])
    expect(at(path, 'patch', 'responses')).toEqual({ 204: { description: 'No Content' } })
    expect(at(path, 'delete', 'parameters')).toEqual([...filters, ...withReferences('preferReturn')])
  })

  test('defines the parameters that its path references', () => {
    expect(at(document, 'parameters', 'body.children')).toEqual({
      in: 'body',
      name: 'children',
      description: 'children',
      required: false,
      schema: { $ref: '#/definitions/children' },
    })
    expect(at(document, 'parameters', 'rowFilter.children.name')).toEqual({
      in: 'query',
      name: 'name',
      description: 'A name',
      required: false,
      type: 'string',
    })
  })

  test('has only GET if it is read-only, and all methods if it allows any write', () => {
    const none = { insertable: false, updatable: false, deletable: false }
    const tables = [table('seen', [id], none), table('cleared', [id], { ...none, deletable: true })]
    const { paths } = rendered({ tables })
    expect(Object.keys(at(paths, '/seen') ?? {})).toEqual(['get'])
    expect(Object.keys(at(paths, '/cleared') ?? {})).toEqual(['get', 'post', 'patch', 'delete'])
  })

  test('describes lengths, values and defaults of columns', () => {
    const columns = [
      column('code', 'character varying', { maximumLength: 3, default: "'abc'::character varying" }),
      column('mood', 'test.mood', { enumValues: ['sad', 'happy'] }),
      column('day', 'date', { type: 'test.day' }),
      column('size', 'integer', { type: 'test.size', default: '7' }),
    ]
    expect(at(rendered({ tables: [table('t', columns)] }), 'definitions', 't', 'properties')).toEqual({
      code: { type: 'string', format: 'character varying', maxLength: 3, default: 'abc' },
      mood: { type: 'string', format: 'test.mood', enum: ['sad', 'happy'] },
      day: { type: 'string', format: 'date' },
      size: { type: 'integer', format: 'int32', default: 7 },
    })
  })

  test('omits columns, comment and required fields if there are none', () => {
    const document = rendered({ tables: [table('empty', [])] })
    expect(at(document, 'definitions', 'empty')).toEqual({ type: 'object' })
    expect(Object.keys(at(document, 'paths', '/empty', 'delete') ?? {})).toEqual(['tags', 'parameters', 'responses'])
  })

  test('has only a summary if its comment has one line', () => {
    const get = at(rendered({ tables: [table('t', [id], { description: 'Short' })] }), 'paths', '/t', 'get')
    expect(at(get, 'summary')).toBe('Short')
    expect(at(get, 'description')).toBeUndefined()
  })

  test.each(['limit', 'columns', 'and'])('has no filter for a column named %s, which is a reserved parameter', name => {
    const document = rendered({ tables: [table('t', [column(name, 'integer'), id])] })
    expect(at(document, 'paths', '/t', 'get', 'parameters', 0)).toEqual({ $ref: '#/parameters/rowFilter.t.id' })
    expect(faults(document)).toEqual([])
  })
})

describe('a function', () => {
  const mixed = routine(
    'mixed',
    [
      parameter('n', 'bigint'),
      parameter('mood', 'test.mood'),
      parameter('list', 'text[]'),
      parameter('any', 'json', { required: false }),
      parameter('rest', 'integer[]', { required: false, variadic: true }),
    ],
    { description: 'Mixes\n\nall of it' },
  )
  const document = rendered({ routines: [mixed] })

  test('accepts arguments in the query string', () => {
    expect(at(document, 'paths', '/rpc/mixed', 'get')).toEqual({
      tags: ['(rpc) mixed'],
      summary: 'Mixes',
      description: 'all of it',
      produces: [
        'application/json',
        'application/vnd.pgrst.object+json;nulls=stripped',
        'application/vnd.pgrst.object+json',
      ],
      parameters: [
        { in: 'query', name: 'n', required: true, type: 'integer', format: 'int64' },
        { in: 'query', name: 'mood', required: true, type: 'string', format: 'mood' },
        { in: 'query', name: 'list', required: true, type: 'string', format: 'text[]' },
        { in: 'query', name: 'any', required: false, type: 'string', format: 'json' },
        {
          in: 'query',
          name: 'rest',
          required: false,
          type: 'array',
          items: { type: 'integer', format: 'int32' },
          collectionFormat: 'multi',
        },
      ],
      responses: { 200: { description: 'OK' } },
    })
  })

  test('accepts arguments in a body', () => {
    const [body, preference] = [0, 1].map(index => at(document, 'paths', '/rpc/mixed', 'post', 'parameters', index))
    expect(preference).toEqual({ $ref: '#/parameters/preferParams' })
    expect(body).toEqual({
      in: 'body',
      name: 'args',
      required: true,
      schema: {
        type: 'object',
        description: 'Mixes\n\nall of it',
        required: ['n', 'mood', 'list'],
        properties: {
          n: { type: 'integer', format: 'int64' },
          mood: { type: 'string', format: 'mood' },
          list: { type: 'array', format: 'text[]', items: { type: 'string' } },
          any: { format: 'json' },
          rest: { type: 'array', format: 'integer[]', items: { type: 'integer' } },
        },
      },
    })
  })

  test('without arguments accepts an empty object', () => {
    const document = rendered({ routines: [routine('now_then', [])] })
    expect(at(document, 'paths', '/rpc/now_then', 'get', 'parameters')).toBeUndefined()
    expect(at(document, 'paths', '/rpc/now_then', 'post', 'parameters', 0, 'schema')).toEqual({ type: 'object' })
  })

  test('has only POST if it is volatile', () => {
    const { paths } = rendered({
      routines: (['volatile', 'stable', 'immutable'] as const).map(volatility =>
        routine(volatility, [], { volatility }),
      ),
    })
    expect(Object.keys(at(paths, '/rpc/volatile') ?? {})).toEqual(['post'])
    expect(Object.keys(at(paths, '/rpc/stable') ?? {})).toEqual(['get', 'post'])
    expect(Object.keys(at(paths, '/rpc/immutable') ?? {})).toEqual(['get', 'post'])
  })

  test('with overloads is described by the last one, with unqualified types of the extra search path', () => {
    const overloads = [routine('f', []), routine('f', [parameter('x', 'more.kind')])]
    const document = rendered({ routines: overloads, extraSearchPath: ['more'] })
    expect(at(document, 'paths', '/rpc/f', 'get', 'parameters')).toMatchObject([{ name: 'x', format: 'kind' }])
  })
})
