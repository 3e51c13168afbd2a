/** Differences that the judge detects, and those that it ignores. */
import { describe, expect, test } from 'vitest'
import type { Answer } from '../../../testing/client.ts'
import { differences } from './compare.ts'
import type { SentRequest } from './request.ts'
import { relations } from './resources.ts'
import { withStableOrder } from './stable-order.ts'

const requestOf = (
  path: string,
  query: SentRequest['query'] = [],
  headers: SentRequest['headers'] = {},
): SentRequest => ({
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
const parts = (request: SentRequest, theirs: Answer, ours: Answer) =>
  differences(request, theirs, ours).map(({ part }) => part)

describe('rows', () => {
  const [one, other] = [json('[{"id":1},{"id":2}]'), json('[{"id":2}, {"id":1}]')]

  test('without an order can be in any order', () => {
    expect(parts(requestOf('/clients'), one, other)).toEqual([])
    expect(parts(requestOf('/clients'), csv('id\n1\n2'), csv('id\n2\n1'))).toEqual([])
  })

  test('with an order are compared in this order', () => {
    expect(parts(requestOf('/clients', [['order', 'id.desc']]), one, other)).toEqual(['body'])
    expect(parts(requestOf('/clients', [['order', 'id']]), csv('id\n1\n2'), csv('id\n2\n1'))).toEqual(['body'])
  })

  test('with an order of an embedding are compared in order only in the embedding', () => {
    const [few, many] = [json('[{"it":[{"id":1},{"id":2}]},{"it":[]}]'), json('[{"it":[]},{"it":[{"id":2},{"id":1}]}]')]
    const select = ['select', 'it:projects!inner(id)'] as const
    expect(parts(requestOf('/clients', [select]), few, many)).toEqual([])
    expect(parts(requestOf('/clients', [select, ['it.order', 'id']]), few, many)).toEqual(['body'])
  })

  test('can have their keys in any order, but lists and objects in columns must be unchanged', () => {
    expect(parts(requestOf('/kinds'), json('[{"id":1,"text":"x"}]'), json('[{"text":"x","id":1}]'))).toEqual([])
    expect(parts(requestOf('/kinds'), json('[{"numbers":[1,2]}]'), json('[{"numbers":[2,1]}]'))).toEqual(['body'])
    expect(parts(requestOf('/kinds'), json('[{"number":1.50}]'), json('[{"number":1.5}]'))).toEqual(['body'])
    expect(parts(requestOf('/kinds'), json('[{"plain":{"a":1,"b":2}}]'), json('[{"plain":{"b":2,"a":1}}]'))).toEqual([
      'body',
    ])
  })

  test('have the same number', () => {
    expect(parts(requestOf('/loose'), json('[{"a":1}]'), json('[{"a":1},{"a":1}]'))).toEqual(['body'])
  })
})

describe('a stable order', () => {
  const orderOf = (request: SentRequest, isAlwaysPage = false, name = 'order') =>
    withStableOrder(request, isAlwaysPage)?.query.find(([known]) => known === name)?.[1]

  test('is added to pages and to orders with ties', () => {
    expect(orderOf(requestOf('/clients', [['limit', '1']]))).toBe('id')
    expect(orderOf(requestOf('/clients', [], { Range: '0-1' }))).toBe('id')
    expect(orderOf(requestOf('/clients', [['order', 'city.desc.nullslast']]))).toBe('city.desc.nullslast,id')
    expect(orderOf(requestOf('/events'), true)).toBe('id,kind')
    expect(orderOf(requestOf('/clients', [['order', 'city,id.desc']]))).toBe('city,id.desc')
  })

  test('is added to pages of embeddings', () => {
    const page = requestOf('/clients', [
      ['select', 'it:projects(*,briefs(summary))'],
      ['it.limit', '1'],
    ])
    expect(orderOf(page, false, 'it.order')).toBe('id')
    expect(orderOf(page, true, 'it.briefs.order')).toBe('project_id,summary')
  })

  test('has the grouping keys; other pages of groups are not requested', () => {
    const page = (select: string) =>
      requestOf('/clients', [
        ['select', select],
        ['limit', '1'],
      ])
    expect(orderOf(page('city,id.max()'))).toBe('city')
    const ofFunction = requestOf('/rpc/table_of', [['select', 'id,label.max()']])
    expect([orderOf(ofFunction, true), orderOf(requestOf('/rpc/table_of'), true)]).toEqual(['id', undefined])
    expect(withStableOrder(page('city::text,id.max()'), false)?.query).toEqual([['select', 'city::text,id.max()']])
    expect(withStableOrder(page('city::text,id.max()'), true)).toBeUndefined()
  })

  test('is not added if it is unnecessary, if an order is malformed, or to writes', () => {
    for (const request of [
      requestOf('/clients'),
      requestOf('/clients', [['order', 'id.up']]),
      { ...requestOf('/notes', [['limit', '1']]), method: 'PATCH' },
    ])
      expect(withStableOrder(request, false)).toBe(request)
  })

  test('exists for every relation', () => {
    for (const name of Object.keys(relations)) {
      const page = requestOf(`/${encodeURIComponent(name)}`, [['limit', '1']])
      expect(orderOf(page)).toBeTruthy()
    }
  })
})
