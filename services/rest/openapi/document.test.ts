import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { OpenApiInput } from './document.ts'
import { at, column, faults, keys, parameter, relationships, rendered, routine, table, toOne } from './testing.ts'

const id = column('id', 'integer', { nullable: false })
const withReferences = (...names: string[]) => names.map(name => ({ $ref: `#/parameters/${name}` }))

describe('the document itself', () => {
  test('names the API as the comment on the schema does', () => {
    const schemaDescription = 'My title\n\nMy description\nin lines'
    expect(at(rendered({ schemaDescription }), 'info')).toEqual({
      title: 'My title',
      description: 'My description\nin lines',
      version: '1.2.3',
    })
    expect(at(rendered({ schemaDescription: 'My title' }), 'info', 'description')).toBe('')
    expect(at(rendered({}), 'info', 'title')).toBe('PostgREST API')
  })

  test.each([
    ['the server itself', { host: 'db.example' }, { host: 'db.example:3000', basePath: '/', schemes: ['http'] }],
    ['all interfaces', { host: '!6' }, { host: '0.0.0.0:3000', basePath: '/', schemes: ['http'] }],
    ['an IPv6 address', { host: '::1' }, { host: undefined, basePath: '/', schemes: ['http'] }],
    [
      'a proxy',
      { proxyUri: 'https://example.org/openapi.json' },
      { host: 'example.org:443', basePath: '/openapi.json', schemes: ['https'] },
    ],
    [
      'a proxy over http',
      { proxyUri: 'http://example.org' },
      { host: 'example.org:80', basePath: '/', schemes: ['http'] },
    ],
    ['a port of a proxy', { proxyUri: 'https://a.b:8443/x' }, { host: 'a.b:8443', basePath: '/x', schemes: ['https'] }],
    [
      'an address of a proxy',
      { proxyUri: 'https://[::1]:1/x' },
      { host: undefined, basePath: '/x', schemes: ['https'] },
    ],
  ])('says where it is served: %s', (_, more, address) => {
    const document = rendered(more)
    expect({ host: document.host, basePath: document.basePath, schemes: document.schemes }).toEqual(address)
    expect(faults(document)).toEqual([])
  })

  test('speaks of tokens where that is on', () => {
    const document = rendered({ securityActive: true })
    expect(document.security).toEqual([{ JWT: [] }])
    expect(at(document, 'securityDefinitions', 'JWT')).toMatchObject({
      type: 'apiKey',
      in: 'header',
      name: 'Authorization',
    })
    expect(Object.keys(rendered({}))).not.toEqual(expect.arrayContaining(['security']))
    expect(rendered({}).securityDefinitions).toBeUndefined()
  })

  test('has its own path, and media types', () => {
    const document = rendered({})
    expect(Object.keys(document.paths ?? {})).toEqual(['/'])
    expect(at(document, 'paths', '/', 'get', 'produces')).toEqual(['application/openapi+json', 'application/json'])
    expect(document.produces).toEqual(document.consumes)
    expect(document.produces).toContain('application/vnd.pgrst.object+json;nulls=stripped')
  })

  test('lists values of Prefer only where there are some', () => {
    const { parameters } = rendered({})
    expect(at(parameters, 'preferParams')).toEqual({
      in: 'header',
      name: 'Prefer',
      description: 'Preference',
      required: false,
      type: 'string',
    })
    expect(at(parameters, 'preferPost', 'enum')).toContain('resolution=merge-duplicates')
    expect(at(parameters, 'rangeUnit', 'default')).toBe('items')
  })
})

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
    accessibleTables: [children],
    cache: relationships(toOne('children', 'parents', [['parent', 'id']])),
  })

  test('has a definition that tells its keys', () => {
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

  test('defines the parameters it names', () => {
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

  test('that cannot be written has GET alone, and one that can in any way all methods', () => {
    const none = { insertable: false, updatable: false, deletable: false }
    const tables = [table('seen', [id], none), table('cleared', [id], { ...none, deletable: true })]
    const { paths } = rendered({ accessibleTables: tables })
    expect(Object.keys(at(paths, '/seen') ?? {})).toEqual(['get'])
    expect(Object.keys(at(paths, '/cleared') ?? {})).toEqual(['get', 'post', 'patch', 'delete'])
  })

  test('tells lengths, values and defaults of columns', () => {
    const columns = [
      column('code', 'character varying', { maximumLength: 3, default: "'abc'::character varying" }),
      column('mood', 'test.mood', { enumValues: ['sad', 'happy'] }),
      column('day', 'date', { type: 'test.day' }),
    ]
    expect(at(rendered({ accessibleTables: [table('t', columns)] }), 'definitions', 't', 'properties')).toEqual({
      code: { type: 'string', format: 'character varying', maxLength: 3, default: 'abc' },
      mood: { type: 'string', format: 'test.mood', enum: ['sad', 'happy'] },
      day: { type: 'string', format: 'date' },
    })
  })

  test('without columns, comment or what must be given says none of it', () => {
    const document = rendered({ accessibleTables: [table('empty', [])] })
    expect(at(document, 'definitions', 'empty')).toEqual({ type: 'object' })
    expect(Object.keys(at(document, 'paths', '/empty', 'delete') ?? {})).toEqual(['tags', 'parameters', 'responses'])
  })

  test('keeps a filter out that a parameter of the same name hides', () => {
    const document = rendered({ accessibleTables: [table('t', [column('limit', 'integer'), id])] })
    expect(at(document, 'paths', '/t', 'get', 'parameters', 0)).toEqual({ $ref: '#/parameters/rowFilter.t.id' })
    expect(faults(document)).toEqual([])
  })
})

describe('a foreign key', () => {
  const owner = column('owner', 'integer')
  const described = (...list: Parameters<typeof relationships>) =>
    at(
      rendered({ accessibleTables: [table('things', [owner])], cache: relationships(...list) }),
      'definitions',
      'things',
      'properties',
      'owner',
      'description',
    )
  const note = (target: string) =>
    `Note:\nThis is a Foreign Key to \`${target}.id\`.<fk table='${target}' column='id'/>`
  const columns: [string, string][] = [['owner', 'id']]
  const people = toOne('things', 'people', columns)

  test('leads to a table rather than a view, to the first of several', () => {
    const view = { ...toOne('things', 'a_view', columns), targetIsView: true }
    expect(described(view, people, toOne('things', 'later', columns))).toBe(note('people'))
    expect(described(view)).toBe(note('a_view'))
  })

  test('of a one-to-one relationship is on the side that refers', () => {
    const oneToOne = (referenced: boolean) =>
      keys('things', 'people', { kind: 'one-to-one', constraint: 'c', columns, referenced })
    expect(described(oneToOne(false))).toBe(note('people'))
    expect(described(oneToOne(true))).toBeUndefined()
  })

  test('is not told of several columns, another schema, the other direction or a junction', () => {
    const elsewhere = { ...people, target: { schema: 'private', name: 'people' } }
    const junction = {
      table: people.target,
      sourceConstraint: 'a',
      targetConstraint: 'b',
      sourceColumns: columns,
      targetColumns: columns,
    }
    expect(described(toOne('things', 'people', [...columns, ['other', 'id']]))).toBeUndefined()
    expect(described(elsewhere)).toBeUndefined()
    expect(described(keys('things', 'people', { kind: 'one-to-many', constraint: 'c', columns }))).toBeUndefined()
    expect(described(keys('things', 'people', { kind: 'many-to-many', junction }))).toBeUndefined()
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
  const document = rendered({ accessibleRoutines: [mixed] })

  test('takes arguments in the query string', () => {
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

  test('takes arguments in a body', () => {
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

  test('without arguments takes an empty object', () => {
    const document = rendered({ accessibleRoutines: [routine('now_then', [])] })
    expect(at(document, 'paths', '/rpc/now_then', 'get', 'parameters')).toBeUndefined()
    expect(at(document, 'paths', '/rpc/now_then', 'post', 'parameters', 0, 'schema')).toEqual({ type: 'object' })
  })

  test('is asked by POST alone if it is volatile', () => {
    const { paths } = rendered({
      accessibleRoutines: (['volatile', 'stable', 'immutable'] as const).map(volatility =>
        routine(volatility, [], { volatility }),
      ),
    })
    expect(Object.keys(at(paths, '/rpc/volatile') ?? {})).toEqual(['post'])
    expect(Object.keys(at(paths, '/rpc/stable') ?? {})).toEqual(['get', 'post'])
    expect(Object.keys(at(paths, '/rpc/immutable') ?? {})).toEqual(['get', 'post'])
  })

  test('with overloads is described by the last of them, and by its bare types of the extra search path', () => {
    const overloads = [routine('f', []), routine('f', [parameter('x', 'more.kind')])]
    const document = rendered({ accessibleRoutines: overloads, extraSearchPath: ['more'] })
    expect(at(document, 'paths', '/rpc/f', 'get', 'parameters')).toMatchObject([{ name: 'x', format: 'kind' }])
  })
})

describe('any schema', () => {
  const name = fc.oneof(
    fc.constantFrom(
      '__proto__',
      'constructor',
      'a/b',
      'a~b',
      'a~1b',
      '100%',
      '%41',
      'a b',
      'limit',
      'select',
      'é"\'',
      '#',
      '7',
    ),
    fc.string({ minLength: 1, maxLength: 8, unit: 'grapheme' }),
  )
  const type = fc.constantFrom(
    'integer',
    'bigint',
    'text',
    'jsonb',
    'json[]',
    'text[]',
    'boolean',
    'test.mood',
    'numeric',
  )
  const comment = fc.option(fc.string({ unit: 'grapheme' }))
  const columns = fc.uniqueArray(
    fc
      .record({ name, type, description: comment, nullable: fc.boolean(), default: fc.option(fc.string()) })
      .map(({ name, type, ...more }) => column(name, type, more)),
    { selector: each => each.name, maxLength: 5 },
  )
  const tables = fc.uniqueArray(
    fc
      .tuple(name, columns, comment, fc.boolean())
      .map(([each, list, description, insertable]) =>
        table(each, list, {
          description,
          insertable,
          updatable: false,
          deletable: false,
          primaryKey: list.slice(0, 1).map(one => one.name),
        }),
      ),
    { selector: each => each.name, maxLength: 5 },
  )
  const parameters = fc.uniqueArray(
    fc
      .tuple(name, type, fc.boolean())
      .map(([each, one, required]) => parameter(each, one, { required, variadic: one.endsWith('[]') })),
    { selector: each => each.name, maxLength: 4 },
  )
  const routines = fc.array(
    fc
      .tuple(name, parameters, fc.constantFrom('volatile' as const, 'stable' as const))
      .map(([each, list, volatility]) => routine(each, list, { volatility })),
    { maxLength: 4 },
  )
  const inputs: fc.Arbitrary<Partial<OpenApiInput>> = fc.record({
    accessibleTables: tables,
    accessibleRoutines: routines,
    schemaDescription: comment,
    securityActive: fc.boolean(),
  })

  test('gives a document that keeps to the specification and leaves nothing out', () => {
    fc.assert(
      fc.property(inputs, more => {
        const document = rendered(more)
        expect(faults(document)).toEqual([])
        for (const each of more.accessibleTables ?? []) {
          const properties = at(document, 'definitions', each.name, 'properties')
          for (const one of each.columns.keys()) expect(at(properties, one)).toBeDefined()
        }
        for (const each of more.accessibleRoutines ?? []) {
          expect(at(document, 'paths', `/rpc/${each.name}`, 'post')).toBeDefined()
        }
      }),
      { numRuns: 300 },
    )
  })

  test('the check finds what is wrong', () => {
    const document = rendered({ accessibleTables: [table('t', [id])] })
    const broken = { ...document, definitions: {}, host: '::1:3000', paths: { t: { get: { responses: {} } } } }
    expect(faults(broken)).toEqual(
      expect.arrayContaining([
        '#/parameters/body.t/schema leads nowhere: #/definitions/t',
        'host is ::1:3000',
        't is not absolute',
        'get t has no responses',
      ]),
    )
  })
})
