/** Each translation has a request that it changes, and a near one that it does not. */
import { expect, test } from 'vitest'
import type { Asked } from './request.ts'
import { translated, translations } from './translations.ts'

const asked = (path: string, more: Partial<Asked> = {}): Asked => ({
  method: 'GET',
  path,
  query: [],
  headers: {},
  body: undefined,
  ...more,
})
const query = (name: string, text: string, method = 'GET') => asked('/notes', { method, query: [[name, text]] })
const header = (name: string, text: string) => asked('/notes', { headers: { [name]: text } })
const sent = (method: string, path: string, body: string, headers: Asked['headers'] = {}) =>
  asked(path, { method, body, headers })

const examples: Readonly<Record<string, readonly [from: Asked, to: Asked, near: Asked]>> = {
  'Range may name its unit': [header('Range', 'items=0-1'), header('Range', '0-1'), header('Range', 'item=0-1')],
  'Media types are names in letters of either kind': [
    header('Accept', 'Text/CSV'),
    header('Accept', 'text/csv'),
    header('Accept', 'text/csv'),
  ],
  'A body of JSON may be of the types that answers have': [
    header('Content-Type', 'application/vnd.pgrst.object+json'),
    header('Content-Type', 'application/json'),
    header('Content-Type', 'application/vnd.list+json'),
  ],
  'PUT may quote the names of the key': [
    query('"id"', 'eq.1', 'PUT'),
    query('id', 'eq.1', 'PUT'),
    query('"id"', 'eq.1', 'PATCH'),
  ],
  'is.not_null is not.is.null': [
    query('and', '(id.is.not_null,id.not.is.NOT_NULL)'),
    query('and', '(id.not.is.null,id.is.null)'),
    query('id', 'is.not_nul'),
  ],
  'limit and offset are decimal digits; anything else is passed over': [
    query('limit', '1.5'),
    asked('/notes'),
    query('limit', '-1'),
  ],
  'limit and offset do not choose what is updated or deleted': [
    query('limit', '1', 'DELETE'),
    asked('/notes', { method: 'DELETE' }),
    query('limit', '1', 'PUT'),
  ],
  'A cast may name an array': [query('select', 'id::int[]'), query('select', 'id::_int4'), query('select', 'id::int')],
  'A foreign key of a table to itself is named by its constraint or its column': [
    query('select', 'people!people_boss_id_fkey(id)'),
    query('select', 'people!boss_id(id)'),
    query('select', 'people!friends(id)'),
  ],
  'max-affected counts where handling is strict alone': [
    header('Prefer', 'return=minimal, max-affected=1'),
    header('Prefer', 'return=minimal'),
    header('Prefer', 'max-affected=x'),
  ],
  'params=single-object is no preference': [
    header('Prefer', 'params=single-object'),
    asked('/notes'),
    header('Prefer', 'handling=strict, params=single-object'),
  ],
  'CSV without quotes is JSON of its records': [
    sent('POST', '/notes', 'id,body\n1,NULL\n', { 'Content-Type': 'text/csv' }),
    sent('POST', '/notes', '[{"id":"1","body":null}]', { 'Content-Type': 'application/json' }),
    sent('POST', '/notes', 'id,body\n1\n', { 'Content-Type': 'text/csv' }),
  ],
  'Rows are updated to the first of several records': [
    sent('PATCH', '/notes', '[{"id":1},{"id":2}]'),
    sent('PATCH', '/notes', '[{"id":1}]'),
    sent('POST', '/notes', '[{"id":1},{"id":2}]'),
  ],
  'No body is an empty object': [
    sent('POST', '/rpc/json_body', ''),
    sent('POST', '/rpc/json_body', '{}'),
    sent('POST', '/rpc/text_body', '', { 'Content-Type': 'text/plain' }),
  ],
}

test.each(translations)('$rule', ({ rule, to }) => {
  const [from, expected, near] = examples[rule] ?? []
  if (from === undefined || expected === undefined || near === undefined) throw new Error('no example')
  expect(to(from)).toEqual(expected)
  expect(to(near)).toBeUndefined()
  expect(translated(from).by.map(one => one.rule)).toContain(rule)
})

test('several translations apply to one request', () => {
  const request = { ...query('select', 'id::int[]'), headers: { Range: 'items=0-1' } }
  expect(translated(request).by).toHaveLength(2)
  expect(translated(asked('/notes')).by).toEqual([])
})

test('a page that is none is asked for as it is', () => {
  const page = (limit: string, offset: string) =>
    translated(
      asked('/notes', {
        method: 'PATCH',
        query: [
          ['limit', limit],
          ['offset', offset],
        ],
        body: '{"pages":"x"}',
      }),
    )
  expect(page('0', '10').by).toEqual([])
  expect(page('-1', '0').by).toEqual([])
  expect(page('0', '0').by).toHaveLength(1)
  expect(page('1', '10').by).toHaveLength(1)
})
