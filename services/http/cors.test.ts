import { expect, test } from 'vitest'
import { corsHeaders, preflight } from './cors.ts'

const rules = (origins?: readonly string[]) => ({ origins, methods: 'GET, POST', exposedHeaders: 'Content-Range' })

const named = (list: readonly (readonly [string, string])[] | undefined) => list && Object.fromEntries(list)

const ask = (origin: string | undefined, method = 'GET') => ({ method, origin })

test('any page may ask where no origins are set', () => {
  expect(named(corsHeaders(ask(undefined), rules()))).toEqual({ 'Access-Control-Allow-Origin': '*' })
  expect(named(corsHeaders(ask('https://a.example'), rules()))).toMatchObject({
    'Access-Control-Allow-Origin': '*',
    'Access-Control-Expose-Headers': 'Content-Range',
  })
  expect(named(corsHeaders(ask('https://a.example', 'OPTIONS'), rules()))).toEqual({
    'Access-Control-Allow-Origin': '*',
  })
})

test('only pages on the list may, and caches are told', () => {
  const list = rules(['https://a.example'])
  expect(named(corsHeaders(ask('https://a.example'), list))).toMatchObject({
    'Access-Control-Allow-Origin': 'https://a.example',
    'Access-Control-Allow-Credentials': 'true',
    Vary: 'Origin',
  })
  expect(named(corsHeaders(ask('https://b.example'), list))).toEqual({ Vary: 'Origin' })
  expect(named(corsHeaders(ask(undefined), list))).toEqual({ Vary: 'Origin' })
})

test('a browser that asks beforehand is told what it may send', () => {
  const asked = {
    origin: 'https://a.example',
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'Foo, accept',
  }
  expect(named(preflight(asked, rules()))).toMatchObject({
    'Access-Control-Allow-Headers': 'Authorization, Foo, accept, Accept, Accept-Language, Content-Language',
    'Access-Control-Allow-Methods': 'GET, POST',
    'Access-Control-Max-Age': '86400',
  })
  expect(named(preflight(asked, rules(['https://b.example'])))).toEqual({ Vary: 'Origin' })
  expect(preflight({ origin: 'https://a.example' }, rules())).toBeUndefined()
  expect(preflight({ 'access-control-request-method': 'POST' }, rules())).toBeUndefined()
})
