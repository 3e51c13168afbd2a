/**
 * The possible plans before the body is known. With them, the service refuses a client without the write privilege
 * before the client sends the body.
 */
import { describe, expect, test } from 'vitest'
import type { Routine } from '../../schema-cache/types.ts'
import { column, parameter, routine, table } from '../testing/openapi.ts'
import { refusal } from '../testing/parsing.ts'
import { cacheOf, own, planned, plannedWithoutBody } from '../testing/schema-cache.ts'
import type { Plan } from './types.ts'

const type = (contentType: string) => ({ headers: { 'content-type': contentType } })
const callOf = (plan: Plan | undefined) => (plan?.kind === 'call' ? plan : undefined)
const writeOf = (plan: Plan | undefined) => (plan?.kind === 'write' ? plan.write : undefined)

describe('before the body is known', () => {
  test('an insert plans no columns, whatever the response contains', () => {
    const plans = plannedWithoutBody('POST /tasks', { headers: { prefer: 'return=representation' } })
    expect(plans).toMatchObject([{ kind: 'write', wants: 'representation', relation: own('tasks') }])
    expect(writeOf(plans[0])).toMatchObject({ kind: 'insert', source: { json: '[]', isArray: true, columns: [] } })
    expect(plannedWithoutBody('PUT /tasks?id=eq.1').map(writeOf)).toMatchObject([{ isPut: true, conditions: [{}] }])
    expect(refusal(() => plannedWithoutBody('PUT /tasks')).code).toBe('RST105')
  })
  test('an update plans one writable column', () => {
    const generated = { generated: true }
    const some = cacheOf({
      tables: [table('some', [column('a', 'text', generated), column('b', 'text'), column('c', 'text')])],
    })
    const [plan, ...others] = plannedWithoutBody('PATCH /some?b=eq.1', {}, some)
    expect(others).toEqual([])
    expect(writeOf(plan)).toMatchObject({ kind: 'update', source: { columns: [{ name: 'b' }] }, conditions: [{}] })
    const none = cacheOf({ tables: [table('none', [column('a', 'text', generated)])] })
    expect(plannedWithoutBody('PATCH /none', {}, none)).toEqual([])
    expect(refusal(() => plannedWithoutBody('PATCH /elephants')).code).toBe('RST205')
  })
  test('a request without a body has its final plan', () => {
    expect([plannedWithoutBody('GET /tasks'), plannedWithoutBody('DELETE /tasks')]).toEqual([[], []])
  })

  describe('a call', () => {
    const routines = [
      routine('f', [parameter('a', 'integer')]),
      routine('f', [parameter('', 'jsonb')]),
      routine('f', [parameter('a', 'text'), parameter('b', 'integer')]),
      routine('take_text', [parameter('', 'text')]),
      routine('take_xml', [parameter('', 'xml')]),
      routine('take_bytes', [parameter('', 'bytea')]),
      routine('take_json', [parameter('', 'json')]),
    ]
    const cache = cacheOf({ routines })
    const calls = (line: string, contentType = 'application/json') =>
      plannedWithoutBody(line, type(contentType), cache).map(plan => {
        const call = callOf(plan)
        return [call?.routine.parameters.map(({ name, type: of }) => `${name} ${of}`).join(), call?.arguments]
      })

    test('plans each overload, with dummy arguments', () => {
      const [one, , two] = routines
      const parametersOf = (routine: Routine | undefined) =>
        routine?.parameters.map(parameter => ({ parameter, key: parameter.name }))
      expect(calls('POST /rpc/f')).toEqual([
        ['a integer', { kind: 'json', json: '{}', isArray: false, parameters: parametersOf(one) }],
        [' jsonb', { kind: 'unnamed', value: '{}', type: 'jsonb' }],
        ['a text,b integer', { kind: 'json', json: '{}', isArray: false, parameters: parametersOf(two) }],
      ])
    })
    test('plans the overload with the named columns', () => {
      expect(calls('POST /rpc/f?columns=b,a').map(([names]) => names)).toEqual(['a text,b integer'])
      expect(calls('POST /rpc/f?columns=x').map(([names]) => names)).toEqual([' jsonb'])
      expect(refusal(() => calls('POST /rpc/take_text?columns=x')).code).toBe('RST202')
    })
    test.each([
      ['take_text', 'text/plain', 'text', ''],
      ['take_xml', 'text/xml', 'xml', '<a/>'],
      ['take_bytes', 'application/octet-stream', 'bytea', ''],
    ])('with a raw body plans the overload that accepts it: %s', (name, contentType, of, value) => {
      expect(calls(`POST /rpc/${name}`, contentType)).toEqual([[` ${of}`, { kind: 'unnamed', value, type: of }]])
      expect(refusal(() => calls('POST /rpc/take_json', contentType)).code).toBe('RST202')
    })
    test('with a form or JSON plans any overload, whatever columns are named', () => {
      expect(calls('POST /rpc/take_json')).toEqual([[' json', { kind: 'unnamed', value: '{}', type: 'json' }]])
      expect(calls('POST /rpc/f', 'application/x-www-form-urlencoded')).toHaveLength(3)
      expect(calls('POST /rpc/f?columns=x', 'application/x-www-form-urlencoded')).toHaveLength(3)
    })
    test('of an unknown function reports the search criteria and a suggestion', () => {
      expect(refusal(() => calls('POST /rpc/take_jso'))).toMatchObject({
        ...{ status: 404, code: 'RST202', hint: 'Perhaps you meant to call the function test.take_json' },
        message: 'Could not find the function test.take_jso in the schema cache',
        details: 'Searched for functions of the name test.take_jso, but no matches were found in the schema cache.',
      })
      expect(refusal(() => calls('POST /rpc/elephant')).hint).toBeNull()
    })
  })
})

describe('the root function', () => {
  const elsewhere = { ...routine('start', []), schema: 'other' }
  const cache = cacheOf({ routines: [routine('start', []), routine('a.b', [])] })
  const both = { ...cache, routines: new Map([...cache.routines, ['other', new Map([['start', [elsewhere]]])]]) }
  const called = (line: string, rootFunction?: string) => callOf(planned(line, {}, both, {}, rootFunction))?.routine

  test("is in the request's schema, or in the configured schema", () => {
    expect(called('GET /', 'start')).toMatchObject(own('start'))
    expect(called('GET /', 'other.start')).toBe(elsewhere)
  })
  test('only the root function can have a configured schema', () => {
    expect(called('GET /rpc/a.b')).toMatchObject(own('a.b'))
    expect(refusal(() => called('GET /rpc/other.start')).code).toBe('RST202')
  })
})
