/** URIs of resources: every schema and table name can be restored from its URI, and the parser never throws. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { requestedResource, schemaUri, tableUri } from './uri.ts'

const name = fc
  .string({ minLength: 1, maxLength: 63, unit: 'grapheme' })
  .filter(text => !text.includes('\0') && encodeURIComponent(text).length < 400)

test('are parsed to the original names', () => {
  fc.assert(
    fc.property(name, name, (schema, table) => {
      expect(requestedResource(schemaUri(schema))).toEqual({ name: 'schema', schema })
      expect(requestedResource(tableUri(schema, table))).toEqual({ name: 'table', schema, table })
    }),
  )
})

test('belong to a resource, or are refused without an error', () => {
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
