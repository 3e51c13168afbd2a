/** What the judge finds different, and what it does not. */
import { describe, expect, test } from 'vitest'
import type { Answer } from '../../../testing/client.ts'
import { differences } from './compare.ts'
import type { Asked } from './request.ts'
import { relations } from './resources.ts'
import { withStableOrder } from './stable-order.ts'

const asked = (path: string, query: Asked['query'] = [], headers: Asked['headers'] = {}): Asked => ({
  method: 'GET',
  path,
  query,
  headers,
  body: undefined,
})
const json = (text: string): Answer => ({
  status: 200,
  statusText: '',
  headers: { 'content-type': 'application/json; charset=utf-8' },
  text,
})
const csv = (text: string): Answer => ({ ...json(text), headers: { 'content-type': 'text/csv; charset=utf-8' } })
const parts = (request: Asked, theirs: Answer, ours: Answer) =>
  differences(request, theirs, ours).map(({ part }) => part)

describe('rows', () => {
  const [one, other] = [json('[{"id":1},{"id":2}]'), json('[{"id":2}, {"id":1}]')]

  test('without an order may be in any', () => {
    expect(parts(asked('/clients'), one, other)).toEqual([])
    expect(parts(asked('/clients'), csv('id\n1\n2'), csv('id\n2\n1'))).toEqual([])
  })

  test('with an order are compared in it', () => {
    expect(parts(asked('/clients', [['order', 'id.desc']]), one, other)).toEqual(['body'])
    expect(parts(asked('/clients', [['order', 'id']]), csv('id\n1\n2'), csv('id\n2\n1'))).toEqual(['body'])
  })

  test('with an order of an embedding are compared in it there alone', () => {
    const [few, many] = [json('[{"it":[{"id":1},{"id":2}]},{"it":[]}]'), json('[{"it":[]},{"it":[{"id":2},{"id":1}]}]')]
    const select = ['select', 'it:projects!inner(id)'] as const
    expect(parts(asked('/clients', [select]), few, many)).toEqual([])
    expect(parts(asked('/clients', [select, ['it.order', 'id']]), few, many)).toEqual(['body'])
  })

  test('have the keys of each row in any order, and lists and objects of a column as they are', () => {
    expect(parts(asked('/kinds'), json('[{"id":1,"text":"x"}]'), json('[{"text":"x","id":1}]'))).toEqual([])
    expect(parts(asked('/kinds'), json('[{"numbers":[1,2]}]'), json('[{"numbers":[2,1]}]'))).toEqual(['body'])
    expect(parts(asked('/kinds'), json('[{"number":1.50}]'), json('[{"number":1.5}]'))).toEqual(['body'])
    expect(parts(asked('/kinds'), json('[{"plain":{"a":1,"b":2}}]'), json('[{"plain":{"b":2,"a":1}}]'))).toEqual([
      'body',
    ])
  })

  test('are as many', () => {
    expect(parts(asked('/loose'), json('[{"a":1}]'), json('[{"a":1},{"a":1}]'))).toEqual(['body'])
  })
})

describe('a stable order', () => {
  const orderOf = (request: Asked, isAlwaysPage = false, name = 'order') =>
    withStableOrder(request, isAlwaysPage)?.query.find(([known]) => known === name)?.[1]

  test('is added to pages and to orders with ties', () => {
    expect(orderOf(asked('/clients', [['limit', '1']]))).toBe('id')
    expect(orderOf(asked('/clients', [], { Range: '0-1' }))).toBe('id')
    expect(orderOf(asked('/clients', [['order', 'city.desc.nullslast']]))).toBe('city.desc.nullslast,id')
    expect(orderOf(asked('/events'), true)).toBe('id,kind')
    expect(orderOf(asked('/clients', [['order', 'city,id.desc']]))).toBe('city,id.desc')
  })

  test('is added to pages of embeddings', () => {
    const page = asked('/clients', [
      ['select', 'it:projects(*,briefs(summary))'],
      ['it.limit', '1'],
    ])
    expect(orderOf(page, false, 'it.order')).toBe('id')
    expect(orderOf(page, true, 'it.briefs.order')).toBe('project_id,summary')
  })

  test('is one of what is grouped by; other pages of groups are not asked for', () => {
    const page = (select: string) =>
      asked('/clients', [
        ['select', select],
        ['limit', '1'],
      ])
    expect(orderOf(page('city,id.max()'))).toBe('city')
    const ofFunction = asked('/rpc/table_of', [['select', 'id,label.max()']])
    expect([orderOf(ofFunction, true), orderOf(asked('/rpc/table_of'), true)]).toEqual(['id', undefined])
    expect(withStableOrder(page('city::text,id.max()'), false)?.query).toEqual([['select', 'city::text,id.max()']])
    expect(withStableOrder(page('city::text,id.max()'), true)).toBeUndefined()
  })

  test('is not added where nothing needs it, where an order is malformed, and to what is written', () => {
    for (const request of [
      asked('/clients'),
      asked('/clients', [['order', 'id.up']]),
      { ...asked('/notes', [['limit', '1']]), method: 'PATCH' },
    ])
      expect(withStableOrder(request, false)).toBe(request)
  })

  test('is known of every relation', () => {
    for (const name of Object.keys(relations)) {
      const page = asked(`/${encodeURIComponent(name)}`, [['limit', '1']])
      expect(orderOf(page)).toBeTruthy()
    }
  })
})
