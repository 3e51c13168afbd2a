import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { at, column, faults, type Parts, parameter, rendered, routine, table } from '../../testing/openapi.ts'

describe('the document itself', () => {
  test("takes the API's name from the schema's comment", () => {
    const comment = 'My title\n\nMy description\nin lines'
    expect(at(rendered({ comment }), 'info')).toEqual({
      title: 'My title',
      description: 'My description\nin lines',
      version: '1.2.3',
    })
    expect(at(rendered({ comment: 'My title' }), 'info', 'description')).toBe('')
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
  ])("contains the server's address: %s", (_, more, address) => {
    const document = rendered(more)
    expect({ host: document.host, basePath: document.basePath, schemes: document.schemes }).toEqual(address)
    expect(faults(document)).toEqual([])
  })

  test('describes tokens if the configuration enables that', () => {
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

  test('has its own path and media types', () => {
    const document = rendered({})
    expect(Object.keys(document.paths ?? {})).toEqual(['/'])
    expect(at(document, 'paths', '/', 'get', 'produces')).toEqual(['application/openapi+json', 'application/json'])
    expect(document.produces).toEqual(document.consumes)
    expect(document.produces).toContain('application/vnd.pgrst.object+json;nulls=stripped')
  })

  test('lists values of Prefer only if there are any', () => {
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

describe('the document of any schema', () => {
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
    fc.tuple(name, columns, comment, fc.boolean()).map(([each, list, description, insertable]) =>
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
  const inputs: fc.Arbitrary<Partial<Parts>> = fc.record({
    tables,
    routines,
    comment,
    securityActive: fc.boolean(),
  })

  test('is complete and matches the specification', () => {
    fc.assert(
      fc.property(inputs, more => {
        const document = rendered(more)
        expect(faults(document)).toEqual([])
        for (const each of more.tables ?? []) {
          const properties = at(document, 'definitions', each.name, 'properties')
          for (const one of each.columns.keys()) expect(at(properties, one)).toBeDefined()
        }
        for (const each of more.routines ?? []) {
          expect(at(document, 'paths', `/rpc/${each.name}`, 'post')).toBeDefined()
        }
      }),
      { numRuns: 300 },
    )
  })

  test('the check detects errors', () => {
    const document = rendered({ tables: [table('t', [column('id', 'integer')])] })
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
