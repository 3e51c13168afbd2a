/** URIs of resources: whatever a schema or a table is called, its URI leads back to it, and no text makes the parser fail. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { resourceAsked, schemaUri, tableUri } from './uri.ts'

const name = fc
  .string({ minLength: 1, maxLength: 63, unit: 'grapheme' })
  .filter(text => !text.includes('\0') && encodeURIComponent(text).length < 400)

test('lead back to what they were made of', () => {
  fc.assert(
    fc.property(name, name, (schema, table) => {
      expect(resourceAsked(schemaUri(schema))).toEqual({ name: 'schema', schema })
      expect(resourceAsked(tableUri(schema, table))).toEqual({ name: 'table', schema, table })
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
        const asked = resourceAsked(uri)
        if (asked !== undefined) expect(uri.startsWith('pg://')).toBe(true)
      },
    ),
  )
})
