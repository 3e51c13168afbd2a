import { describe, expect, test } from 'vitest'
import type { Parameter } from '../../schema-cache/types.ts'
import { parameter, routine } from '../testing/openapi.ts'
import { refusal } from '../testing/parsing.ts'
import { cacheOf, own, planned, type Sent } from '../testing/schema-cache.ts'
import { findRoutine, type Offer } from './call.ts'
import type { Plan } from './types.ts'

const optional = (name: string, type = 'integer') => parameter(name, type, { required: false })
const f = (...parameters: Parameter[]) => routine('f', parameters)
const nothing = f()
const one = f(parameter('a', 'integer'))
const two = f(parameter('a', 'integer'), parameter('b', 'integer'))
const defaulted = f(parameter('a', 'integer'), optional('c'))
const ofJson = f(parameter('', 'json'))
const ofJsonb = f(parameter('', 'jsonb'))
const ofText = f(parameter('', 'text'))
const ofBytes = f(parameter('', 'bytea'))

const offer = (names: string[], unnamed?: Offer['unnamed']): Offer => ({ names: new Set(names), unnamed })
const choose = (overloads: ReturnType<typeof f>[], offered: Offer) =>
  findRoutine(cacheOf({ routines: overloads }), own('f'), offered)

describe('among overloads,', () => {
  test.each([
    ['without arguments', [nothing, one, ofJson], offer([]), nothing],
    ['by name', [nothing, one, two], offer(['a']), one],
    ['by all names', [nothing, one, two], offer(['b', 'a']), two],
    ['with a default omitted', [nothing, defaulted], offer(['a']), defaulted],
    ['with a default given', [one, defaulted], offer(['a', 'c']), defaulted],
    ['by name before a body', [one, ofJson], offer(['a'], 'json'), one],
    ['by a body of json', [one, ofJson, ofText], offer(['x'], 'json'), ofJson],
    ['by a body of jsonb', [ofJsonb], offer(['x'], 'json'), ofJsonb],
    ['by an empty key', [ofText], offer([''], 'json'), ofText],
    ['by a body of text', [nothing, ofJson, ofText], offer([], 'text'), ofText],
    ['by a body of bytes', [nothing, ofText, ofBytes], offer([], 'bytea'), ofBytes],
  ])('one overload is selected: %s', (_, overloads, offered, expected) => {
    expect(choose(overloads, offered)).toBe(expected)
  })

  test.each([
    ['too few arguments', [two], offer(['a'])],
    ['too many arguments', [one], offer(['a', 'b'])],
    ['a raw body, which has no names', [nothing], offer([], 'text')],
    ['another body', [ofBytes, ofJson], offer([], 'text')],
    ['a body by GET', [ofJson], offer([])],
    ['the empty name', [ofText], offer([''])],
    ['a body for two unnamed parameters', [f(parameter('', 'json'), parameter('', 'json'))], offer([], 'json')],
    ['no overloads', [], offer([])],
  ])('no overload is selected: %s', (_, overloads, offered) => {
    expect(refusal(() => choose(overloads, offered))).toMatchObject({ status: 404, code: 'RST202' })
  })

  test('records of CSV are not a json body', () => {
    const cache = cacheOf({ routines: [ofJson] })
    const called = (type: string, body: string) =>
      planned('POST /rpc/f', { headers: { 'content-type': type }, body }, cache)
    expect(called('application/json', '{"a":1}').kind).toBe('call')
    expect(refusal(() => called('text/csv', 'a\n1\n')).code).toBe('RST202')
  })

  test('an error repeats only a few names, and suggests no function for a raw body', () => {
    const names = Array.from({ length: 101 }, (_, index) => `p${100 + index}`)
    const { message } = refusal(() => choose([one], offer(names)))
    expect(message).toContain('p199')
    expect(message).not.toContain('p200')
    const near = cacheOf({ routines: [routine('functions', [])] })
    const hint = (unnamed?: Offer['unnamed']) =>
      refusal(() => findRoutine(near, own('function'), offer([], unnamed))).hint
    expect([hint(), hint('text')]).toEqual([expect.stringContaining('test.functions'), null])
  })

  test('overloads are distinguished by all their parameters', () => {
    const both = f(parameter('a', 'text'), parameter('b', 'text'))
    expect(refusal(() => choose([two, both], offer(['a', 'b']))).message).toBe(
      'Could not choose the best candidate function between: ' +
        'test.f(a => integer, b => integer), test.f(a => text, b => text)',
    )
  })

  test('several matching overloads get RST203', () => {
    const text = f(parameter('a', 'text'))
    expect(refusal(() => choose([one, text], offer(['a'])))).toMatchObject({
      ...{ status: 300, code: 'RST203' },
      message: 'Could not choose the best candidate function between: test.f(a => integer), test.f(a => text)',
      hint: 'Try renaming the parameters or the function itself in the database so function overloading can be resolved',
    })
    expect(refusal(() => choose([ofJson, ofJsonb], offer(['a'], 'json'))).code).toBe('RST203')
    expect(refusal(() => choose([one, defaulted], offer(['a']))).code).toBe('RST203')
  })
})

describe('the error for an unknown function contains', () => {
  const cache = cacheOf({ routines: [two, routine('frobnicate', [])] })
  const refusalOf = (name: string, offered: Offer) => refusal(() => findRoutine(cache, own(name), offered))
  const searched = (what: string) =>
    `Searched for the function test.${what}, but no matches were found in the schema cache.`

  test('the search criteria', () => {
    expect(refusalOf('f', offer(['z', 'y']))).toMatchObject({
      message: 'Could not find the function test.f(y, z) in the schema cache',
      details: searched('f with parameters y, z'),
    })
    expect(refusalOf('f', offer([]))).toMatchObject({
      message: 'Could not find the function test.f without parameters in the schema cache',
      details: searched('f without parameters'),
    })
    expect(refusalOf('f', offer(['y'], 'json'))).toMatchObject({
      message: 'Could not find the function test.f(y) in the schema cache',
      details: searched('f with parameter y or with a single unnamed json/jsonb parameter'),
    })
    expect(refusalOf('f', offer([], 'bytea'))).toMatchObject({
      message: 'Could not find the function test.f in the schema cache',
      details: searched('f with a single unnamed bytea parameter'),
    })
  })

  test('a suggestion', () => {
    expect(refusalOf('frobnicat', offer([])).hint).toBe('Perhaps you meant to call the function test.frobnicate')
    expect(refusalOf('f', offer(['a', 'bb'])).hint).toBe('Perhaps you meant to call the function test.f(a, b)')
    expect(refusalOf('elephant', offer([])).hint).toBeNull()
    // Six of ten letters are correct. A client that guesses names gets no suggestion.
    expect(refusalOf('frobni', offer([])).hint).toBeNull()
    expect(refusal(() => findRoutine(cache, { schema: 'other', name: 'f' }, offer([]))).hint).toBeNull()
  })
})

describe('a call', () => {
  const plan = (line: string, sent: Sent = {}): Extract<Plan, { kind: 'call' }> => {
    const found = planned(line, sent)
    if (found.kind !== 'call') throw new Error(`a ${found.kind} is no call`)
    return found
  }
  const names = (list: readonly { parameter: Parameter; value: unknown }[]) =>
    list.map(argument => [argument.parameter.name, argument.value])

  test("by GET passes a name's last value, and all its values to a variadic parameter", () => {
    const { arguments: last, readOnly } = plan('GET /rpc/add?a=1&b=2&a=3')
    expect(last.kind === 'values' && names(last.list)).toEqual([
      ['a', '3'],
      ['b', '2'],
    ])
    expect(readOnly).toBe(true)
    const { arguments: words } = plan('GET /rpc/join?words=x&words=y')
    expect(words.kind === 'values' && names(words.list)).toEqual([['words', { list: ['x', 'y'] }]])
  })

  test("by POST passes the body's values for the function's parameters", () => {
    const body = '{"a": 1}'
    expect(plan('POST /rpc/add', { body }).arguments).toEqual({
      ...{ kind: 'json', json: Buffer.from(body), isArray: false },
      parameters: [{ parameter: parameter('a', 'integer'), key: 'a' }],
    })
    expect(plan('POST /rpc/take_json', { body: '[]' }).arguments).toEqual({
      ...{ kind: 'unnamed', value: Buffer.from('[]'), type: 'json' },
    })
    const bytes = Buffer.from([0, 255])
    const octets = { 'content-type': 'application/octet-stream' }
    expect(plan('POST /rpc/take_bytes', { body: bytes, headers: octets }).arguments).toEqual({
      ...{ kind: 'unnamed', value: bytes, type: 'bytea' },
    })
    const form = { 'content-type': 'application/x-www-form-urlencoded' }
    const { arguments: fields } = plan('POST /rpc/add', { body: 'a=1&b=2', headers: form })
    expect(fields.kind === 'values' && names(fields.list)).toEqual([
      ['a', Buffer.from('1')],
      ['b', Buffer.from('2')],
    ])
  })

  test('may write only by POST, and only if the function is volatile', () => {
    expect(plan('POST /rpc/write', { body: '{"name":"x"}' }).readOnly).toBe(false)
    expect(plan('GET /rpc/write?name=x').readOnly).toBe(true)
    expect(plan('POST /rpc/add', { body: '{"a":1}' }).readOnly).toBe(true)
  })

  test('is filtered, ordered and embedded like the relation that the function returns', () => {
    expect(plan('GET /rpc/find?name=x&id=gt.5&select=id,clients(name)&order=id&limit=2')).toMatchObject({
      read: {
        relation: own('projects'),
        conditions: [{ field: { name: 'id', type: 'integer' } }],
        select: [{ field: { name: 'id' } }, { kind: 'embedded', name: 'clients' }],
        ...{ order: [{ field: { name: 'id' } }], range: { offset: 0, limit: 2 } },
      },
    })
  })

  test('supports max-affected only if the function returns a set', () => {
    const headers = { prefer: 'handling=strict, max-affected=5' }
    expect(plan('POST /rpc/find', { body: '{}', headers }).maximumAffected).toBe(5)
    expect(
      plan('POST /rpc/find', { body: '{}', headers: { prefer: 'max-affected=5' } }).maximumAffected,
    ).toBeUndefined()
    expect(refusal(() => plan('GET /rpc/add?a=1', { headers }))).toMatchObject({ status: 400, code: 'RST128' })
  })

  test('by HEAD has no body', () => {
    expect(plan('HEAD /rpc/add?a=1')).toMatchObject({ headersOnly: true, body: { shape: { kind: 'none' } } })
  })
})
