/** What is sent to a service: only what the request names, and no path that could lead elsewhere. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isWellFormed } from '../../routes/request-target.ts'
import { ApiError } from '../errors.ts'
import { mcpRequest, ragRequest, restRequest } from './outgoing.ts'
import { mcpTry, ragTry, restTry } from './schema.ts'

const address = '203.0.113.7'
const rest = (given: object) => restRequest(restTry.parse({ method: 'GET', path: 't', ...given }), address)

describe('a request to rest', () => {
  test.each([
    ['films', '', '/films'],
    ['/films', 'select=id&id=gt.10', '/films?select=id&id=gt.10'],
    ['rpc/add', 'a=1', '/rpc/add?a=1'],
    ['', '', '/'],
    ['a%2Fb/%C3%A4', '', '/a%2Fb/%C3%A4'],
    ['films', 'a=../..//b', '/films?a=../..//b'],
  ])('to %j with %j has the target %j', (path, query, target) => {
    expect(rest({ path, query }).target).toBe(target)
  })

  test.each(
    [
      '..',
      '../x',
      'a/..',
      'a/../b',
      './x',
      '//x',
      'a//b',
      '%2e%2e/x',
      'a/.%2E',
      'a%2f..%2fb',
      'a\\..\\b',
      'x%5c..',
    ].map(path => [path]),
  )('to %j is refused', path => {
    expect(() => rest({ path })).toThrow(/^path: must not contain/)
  })

  test.each([
    ...['a b', 'a?b', 'a#b', 'a\r\nHost: x', 'a\u0000', 'ä', '\u007f'].map(path => ({ path })),
    ...['a b', 'a#b', 'a\nb', 'ä'].map(query => ({ query })),
    ...['a b', 'a\r\nX: y', 'ä', ''].map(token => ({ token })),
    { method: 'PUT' },
    { method: 'get' },
    { body: '{}' },
    { method: 'DELETE', body: '{}' },
    { path: 'a'.repeat(2001) },
    { query: 'a'.repeat(8001) },
    { method: 'POST', body: 'a'.repeat(65_537) },
    { headers: {} },
  ])('with %j does not match the schema', given => {
    expect(restTry.safeParse({ method: 'GET', path: 't', ...given }).success).toBe(false)
  })

  test('of any accepted path stays below the address, whatever servers decode', () => {
    const piece = fc.constantFrom('.', '..', '/', '%2e', '%2F', '%5C', '\\', 'a', '%', ':', '@', '"', ';')
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), pieces => {
        const path = pieces.join('')
        if (!restTry.safeParse({ method: 'GET', path }).success) return
        let target: string
        try {
          target = rest({ path }).target
        } catch (error) {
          expect(error).toBeInstanceOf(ApiError)
          return
        }
        expect(isWellFormed(target)).toBe(true)
        expect(new URL(target, 'http://rest.test/').host).toBe('rest.test')
      }),
      { numRuns: 2000 },
    )
  })

  test('has fixed headers, and a token only if one is given', () => {
    const common = { 'accept-encoding': 'identity', 'user-agent': 'espalier-api', accept: '*/*' }
    expect(rest({}).headers).toEqual({ ...common, 'x-forwarded-for': address })
    const write = rest({ method: 'POST', body: '{"a":12345678901234567890}', token: 'a.b.c' })
    expect(write.headers).toEqual({
      ...common,
      ...{ 'x-forwarded-for': address, 'content-type': 'application/json', authorization: 'Bearer a.b.c' },
    })
    expect(write.body).toBe('{"a":12345678901234567890}')
    expect(restRequest(restTry.parse({ method: 'GET', path: 't' }), 'x\r\ny').headers).toEqual(common)
  })
})

test('a call of a tool has the token, and its arguments unchanged', () => {
  const call = mcpTry.parse({ tool: 'query_database', arguments: { query: 'SELECT 1', deep: [{ a: null }] } })
  const { method, target, headers, body } = mcpRequest(call, { address, token: 't1', id: 'i' })
  expect([method, target, headers.authorization]).toEqual(['POST', '/mcp/v1', 'Bearer t1'])
  expect(JSON.parse(body ?? '')).toEqual({
    ...{ jsonrpc: '2.0', id: 'i', method: 'tools/call' },
    params: { name: 'query_database', arguments: call.arguments },
  })
  expect(mcpTry.safeParse({ tool: 't', arguments: { a: 'x'.repeat(65_536) } }).success).toBe(false)
  expect(mcpTry.safeParse({ tool: 't'.repeat(129) }).success).toBe(false)
  expect(mcpTry.safeParse({ tool: 't', arguments: [] }).success).toBe(false)
})

test('a question asks for sources, without a stream and without a token', () => {
  const { target, headers, body } = ragRequest(ragTry.parse({ pipeline: 'docs', query: 'Why?' }), address)
  expect([target, headers.authorization]).toEqual(['/v1/pipelines/docs', undefined])
  expect(JSON.parse(body ?? '')).toEqual({ query: 'Why?', include_sources: true, stream: false })
  for (const pipeline of ['..', 'a/b', '', '%2e'])
    expect(ragTry.safeParse({ pipeline, query: 'Why?' }).success).toBe(false)
})
