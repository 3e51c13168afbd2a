import { expect, test } from 'vitest'
import { corsHeaders, preflight } from './cors.ts'

const rules = (origins?: readonly string[]) => ({ origins, methods: 'GET, POST', exposedHeaders: 'Content-Range' })

const named = (list: readonly (readonly [string, string])[] | undefined) => list && Object.fromEntries(list)

const requestOf = (origin: string | undefined, method = 'GET') => ({ method, origin })

test('any origin is allowed if no origins are configured', () => {
  expect(named(corsHeaders(requestOf(undefined), rules()))).toEqual({ 'Access-Control-Allow-Origin': '*' })
  expect(named(corsHeaders(requestOf('https://a.example'), rules()))).toMatchObject({
    'Access-Control-Allow-Origin': '*',
    'Access-Control-Expose-Headers': 'Content-Range',
  })
  expect(named(corsHeaders(requestOf('https://a.example', 'OPTIONS'), rules()))).toEqual({
    'Access-Control-Allow-Origin': '*',
  })
})

test('only listed origins are allowed, and responses have Vary: Origin', () => {
  const list = rules(['https://a.example'])
  expect(named(corsHeaders(requestOf('https://a.example'), list))).toMatchObject({
    'Access-Control-Allow-Origin': 'https://a.example',
    'Access-Control-Allow-Credentials': 'true',
    Vary: 'Origin',
  })
  expect(named(corsHeaders(requestOf('https://b.example'), list))).toEqual({ Vary: 'Origin' })
  expect(named(corsHeaders(requestOf(undefined), list))).toEqual({ Vary: 'Origin' })
})

test('the response to a preflight request lists what a browser may send', () => {
  const preflightRequest = {
    origin: 'https://a.example',
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'Foo, accept',
  }
  expect(named(preflight(preflightRequest, rules()))).toMatchObject({
    'Access-Control-Allow-Headers': 'Authorization, Foo, accept, Accept, Accept-Language, Content-Language',
    'Access-Control-Allow-Methods': 'GET, POST',
    'Access-Control-Max-Age': '86400',
  })
  expect(named(preflight(preflightRequest, rules(['https://b.example'])))).toEqual({ Vary: 'Origin' })
  expect(preflight({ origin: 'https://a.example' }, rules())).toBeUndefined()
  expect(preflight({ 'access-control-request-method': 'POST' }, rules())).toBeUndefined()
})
