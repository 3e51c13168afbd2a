import { describe, expect, test } from 'vitest'
import type { RequestHead } from '../../http/message.ts'
import { refusal } from '../testing/parsing.ts'
import { parseRequest, type RequestRules } from './request.ts'

const plainRules: RequestRules = {
  schemas: ['api', 'ünter'],
  rootFunction: undefined,
  openApiDisabled: false,
  timeZones: new Set(),
}
const read = (method: string, path: string, more: Partial<RequestHead> = {}, rules: Partial<RequestRules> = {}) =>
  parseRequest({ method, path, query: '', headers: {}, address: '', ...more }, { ...plainRules, ...rules })
const action = (...args: Parameters<typeof read>) => read(...args).action

describe('an action', () => {
  test.each<[string, string, object]>([
    ['GET', '/a', { kind: 'read', relation: 'a', headersOnly: false }],
    ['HEAD', '/a', { kind: 'read', headersOnly: true }],
    ['GET', '/a%20b%2Fc', { relation: 'a b/c' }],
    ['GET', '/%C3%A4', { relation: 'ä' }],
    ['GET', '/rpc', { kind: 'read', relation: 'rpc' }],
    ['POST', '/a', { kind: 'insert', relation: 'a' }],
    ['PATCH', '/a', { kind: 'update', relation: 'a' }],
    ['PUT', '/a', { kind: 'put', relation: 'a' }],
    ['DELETE', '/a', { kind: 'delete', relation: 'a' }],
    ['OPTIONS', '/a', { kind: 'options', relation: 'a' }],
    ['GET', '/', { kind: 'openapi', headersOnly: false }],
    ['GET', '', { kind: 'openapi' }],
    ['HEAD', '/', { kind: 'openapi', headersOnly: true }],
    ['OPTIONS', '/', { kind: 'options-root' }],
    ['GET', '/rpc/f', { kind: 'call', name: 'f', method: 'GET', atRoot: false }],
    ['HEAD', '/rpc/f', { kind: 'call', method: 'HEAD' }],
    ['POST', '/rpc/f', { kind: 'call', method: 'POST' }],
    ['OPTIONS', '/rpc/f', { kind: 'options-function', name: 'f', atRoot: false }],
  ])('of %s %s', (method, path, expected) => {
    expect(action(method, path)).toMatchObject(expected)
  })

  test.each([
    ['GET', '/a', undefined],
    ['HEAD', '/rpc/f', undefined],
    ['GET', '/rpc/f', undefined],
    ['DELETE', '/a', undefined],
    ['OPTIONS', '/a', undefined],
    ['POST', '/a', { type: 'json', forFunction: false, keysAreNamed: false }],
    ['PATCH', '/a', { type: 'json', forFunction: false, keysAreNamed: false }],
    ['PUT', '/a', { type: 'json', forFunction: false, keysAreNamed: false }],
    ['POST', '/rpc/f', { type: 'json', forFunction: true, keysAreNamed: false }],
  ])('of %s %s reads the body as %o', (method, path, expected) => {
    expect(read(method, path).body).toEqual(expected)
  })

  test('at the root can be a function call', () => {
    const rules = { rootFunction: 'api.root' }
    expect(action('GET', '/', {}, rules)).toMatchObject({ kind: 'call', name: 'api.root', atRoot: true })
    expect(action('POST', '/', {}, rules)).toMatchObject({ kind: 'call', method: 'POST', atRoot: true })
  })

  test.each([
    ['TRACE', '/a', 405, 'RST117'],
    ['get', '/a', 405, 'RST117'],
    ['POST', '/', 405, 'RST117'],
    ['DELETE', '/', 405, 'RST117'],
    ['PUT', '/rpc/f', 405, 'RST101'],
    ['DELETE', '/rpc/f', 405, 'RST101'],
    ['TRACE', '/rpc/f', 405, 'RST101'],
    ['GET', '/a/b', 404, 'RST125'],
    ['GET', '/a/', 404, 'RST125'],
    ['GET', '//', 404, 'RST125'],
    ['GET', '/rpc/f/g', 404, 'RST125'],
    ['GET', '/rpc//', 404, 'RST125'],
    ['GET', '/%ff', 404, 'RST125'],
    ['GET', '/%', 404, 'RST125'],
  ])('of %s %s is refused with %i %s', (method, path, status, code) => {
    expect(refusal(() => read(method, path))).toMatchObject({ status, code })
  })

  test('at the root is RST126 if OpenAPI is disabled', () => {
    for (const method of ['GET', 'HEAD', 'OPTIONS', 'POST'])
      expect(refusal(() => read(method, '/', {}, { openApiDisabled: true }))).toMatchObject({
        status: 404,
        code: 'RST126',
      })
  })
})

describe('a schema', () => {
  const latin1 = (text: string) => Buffer.from(text).toString('latin1')
  const schema = (method: string, headers: RequestHead['headers']) => read(method, '/a', { headers }).schema

  test('is the default schema, or a profile header selects it', () => {
    expect(schema('GET', {})).toBe('api')
    expect(schema('GET', { 'accept-profile': latin1('ünter') })).toBe('ünter')
    expect(schema('GET', { 'content-profile': latin1('ünter') })).toBe('api')
    for (const method of ['POST', 'PATCH', 'PUT', 'DELETE']) {
      expect(schema(method, { 'content-profile': latin1('ünter') })).toBe('ünter')
      expect(schema(method, { 'accept-profile': latin1('ünter') })).toBe('api')
    }
  })

  test('that is not exposed is RST106', () => {
    expect(refusal(() => schema('GET', { 'accept-profile': 'pg_catalog' }))).toMatchObject({
      ...{ status: 406, code: 'RST106', message: 'Invalid schema: pg_catalog' },
      hint: 'Only the following schemas are exposed: api, ünter',
    })
  })
})

test.each(['limit=1', 'offset=1', 'limit=0'])('PUT with %s is RST114, whatever its body is', query => {
  const headers = { 'content-type': 'image/png' }
  expect(refusal(() => read('PUT', '/a', { headers, query: `id=eq.1&${query}` }))).toMatchObject({
    ...{ status: 400, code: 'RST114', message: 'limit/offset querystring parameters are not allowed for PUT' },
  })
})

test('the result has all other parts', () => {
  const headers = { prefer: 'count=exact', accept: 'text/csv', range: '1-2', 'content-type': 'text/csv' }
  expect(read('GET', '/a', { headers, query: 'limit=5' })).toMatchObject({
    ...{ preferences: { count: 'exact' }, accept: [{ kind: 'named', name: 'text/csv' }] },
    ...{ range: { offset: 1, limit: 2 }, query: { limits: [{ value: 5 }] } },
  })
  expect(read('DELETE', '/a', { headers }).range).toEqual({ offset: 0, limit: undefined })
  expect(read('POST', '/a', { query: 'columns=x' }).body).toMatchObject({ keysAreNamed: true })
  expect(read('POST', '/a', { headers }).body).toMatchObject({ type: 'csv', keysAreNamed: false })
  expect(read('GET', '/rpc/f', { query: 'a=1&select=b' }).query.parameters).toEqual([['a', '1']])
  expect(refusal(() => read('POST', '/rpc/f', { query: 'a=1' })).code).toBe('RST100')
})
