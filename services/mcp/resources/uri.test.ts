/** URIs of resources: every schema and table name is restored from its URI, and no text makes the parser throw. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { requestedResource, schemaUri, tableUri } from './uri.ts'

const name = fc
  .string({ minLength: 1, maxLength: 63, unit: 'grapheme' })
  .filter(text => !text.includes('\0') && encodeURIComponent(text).length < 400)

test('are parsed to the names they were made of', () => {
  fc.assert(
    fc.property(name, name, (schema, table) => {
      expect(requestedResource(schemaUri(schema))).toEqual({ name: 'schema', schema })
      expect(requestedResource(tableUri(schema, table))).toEqual({ name: 'table', schema, table })
    }),
  )
})

test('are those of a resource, or of none', () => {
  const parts = fc.constantFrom(
    'pg://',
    'schemas',
    'settings',
    'tables',
    '/',
    '%',
    '%2F',
    '%00',
    'system_info',
    '?',
    '#',
    ' ',
    'é',
  )
  fc.assert(
    fc.property(
      fc.oneof(
        fc.array(parts).map(list => list.join('')),
        fc.string(),
      ),
      uri => {
        const requested = requestedResource(uri)
        if (requested !== undefined) expect(uri.startsWith('pg://')).toBe(true)
      },
    ),
  )
})
