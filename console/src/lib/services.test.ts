import { describe, expect, test } from 'vitest'
import { bodyOf, type Description, fieldsOf, labelOf, valuesOf } from './schema-form.ts'
import { type Service, serviceSnippet, servicesAfter, tokenOf } from './services.ts'

const description: Description = {
  components: {
    schemas: {
      Provider: { type: 'string', enum: ['openai', 'voyage'] },
      Model: {
        type: 'object',
        required: ['provider'],
        properties: {
          provider: { $ref: '#/components/schemas/Provider', description: 'The `provider`.' },
          api_key: { type: ['string', 'null'], writeOnly: true },
        },
      },
      Settings: {
        type: 'object',
        required: ['model', 'parts'],
        properties: {
          writes: { type: 'boolean', allOf: [{ type: 'boolean', default: false }] },
          pool: { type: 'integer', minimum: 1, maximum: 30, allOf: [{ default: 10 }] },
          other: { anyOf: [{ $ref: '#/components/schemas/Provider' }, { type: 'null' }] },
          jwt_role_claim_key: { type: ['string', 'null'] },
          origins: { type: 'array', items: { type: 'string' } },
          model: { $ref: '#/components/schemas/Model' },
          extra: { $ref: '#/components/schemas/Model' },
          parts: { type: 'array', items: { $ref: '#/components/schemas/Model' } },
        },
      },
    },
  },
}
const fields = fieldsOf(description, 'Settings') ?? []

describe('the form of a schema', () => {
  test('has a field of the right kind for each property', () => {
    const kinds = Object.fromEntries(fields.map(({ key, kind }) => [key, kind]))
    expect(kinds).toEqual({
      ...{ writes: 'boolean', pool: 'number', other: 'choice', jwt_role_claim_key: 'text', origins: 'lines' },
      ...{ model: 'object', extra: 'object', parts: 'list' },
    })
    expect(fields[1]).toMatchObject({ label: 'Pool', initial: '10', least: 1, most: 30, isInteger: true })
    const model = fields.find(({ key }) => key === 'model')
    expect(model).toMatchObject({ fields: [{ hint: 'The provider.' }, { kind: 'secret', isRemovable: true }] })
    expect(labelOf('db_anon_role')).toBe('DB anon role')
  })

  test('starts with the defaults, and sends only filled fields', () => {
    const values = valuesOf(fields, {})
    expect(values).not.toHaveProperty('extra')
    expect(bodyOf(fields, values)).toEqual({
      ...{ writes: false, pool: 10, model: { provider: 'openai' }, parts: [{ provider: 'openai' }] },
    })
  })

  test('sends the values that the API returned, omits unchanged secrets, and sends null for removed secrets', () => {
    const stored = {
      ...{ writes: true, pool: 3, other: 'voyage', origins: ['https://a.example', 'https://b.example'] },
      ...{ model: { provider: 'voyage' }, extra: { provider: 'openai' }, parts: [{ provider: 'voyage' }] },
    }
    const values = valuesOf(fields, stored)
    expect(bodyOf(fields, values)).toEqual(stored)
    const removed = { ...values, model: { provider: 'voyage', api_key: null } }
    expect(bodyOf(fields, removed)).toMatchObject({ model: { provider: 'voyage', api_key: null } })
  })

  test('has a maximum depth, and is undefined for an unknown schema', () => {
    const endless: Description = {
      components: { schemas: { A: { type: 'object', properties: { a: { $ref: '#/components/schemas/A' } } } } },
    }
    expect(fieldsOf(endless, 'A')).toHaveLength(1)
    expect(fieldsOf({}, 'A')).toBeUndefined()
    expect(fieldsOf(description, 'constructor')).toBeUndefined()
  })
})

describe('services', () => {
  const rest = { db_pool: 10, max_rows: 1000, db_schemas: 'public', db_anon_role: 'web' }
  const known: Service[] = [
    { service_type: 'mcp', service_id: 'a', mcp_config: { allow_writes: true, init_tokens: 'one, two' } },
    { service_type: 'rest', service_id: 'b', rest_config: rest, state: 'running', uri: "https://x/it's" },
  ]

  test('a change or removal of one service does not change the other services', () => {
    const next = { service_type: 'mcp', mcp_config: {} } as const
    const other = { service_type: 'rest', service_id: 'b', rest_config: rest }
    expect(servicesAfter(known, 'mcp', next)).toEqual([other, next])
    expect(servicesAfter(known, 'rest', undefined)).toEqual([{ service_type: 'mcp', service_id: 'a' }])
  })

  test('a client sends the first token', () => {
    expect(known.map(tokenOf)).toEqual(['one', undefined])
    expect(tokenOf({ service_type: 'rag', bearer_token: 'three' })).toBe('three')
  })

  test('snippets quote URLs, and contain no token', () => {
    const mcp = { ...known[0], service_type: 'mcp', uri: 'https://x/mcp' }
    expect(JSON.parse(serviceSnippet('mcp', 'claude', 'shop', mcp))).toEqual({
      mcpServers: {
        shop: { type: 'http', url: 'https://x/mcp/v1', headers: { Authorization: `Bearer \${ESPALIER_MCP_TOKEN}` } },
      },
    })
    for (const program of ['claude', 'claudeDesktop', 'cursor', 'vscode', 'curl'] as const)
      expect(serviceSnippet('mcp', program, 'shop', mcp)).not.toContain('one')
    const service = known[1] ?? mcp
    expect(serviceSnippet('rest', 'curl', 'shop', service)).toBe("curl -s 'https://x/it'\\''s/my_table?limit=10'")
    expect(serviceSnippet('rest', 'postgrest', 'shop', service)).toContain(`PostgrestClient("https://x/it's")`)
  })
})
