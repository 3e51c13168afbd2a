/** What a request can come to before its body is there: found out so that who may not write need not send one. */
import { describe, expect, test } from 'vitest'
import type { Routine } from '../../schema-cache/types.ts'
import { column, parameter, routine, table } from '../testing/openapi.ts'
import { refusal } from '../testing/parsing.ts'
import { cacheOf, own, planned, plannedWithoutBody } from '../testing/schema-cache.ts'
import type { Plan } from './types.ts'

const type = (contentType: string) => ({ headers: { 'content-type': contentType } })
const callOf = (plan: Plan | undefined) => (plan?.kind === 'call' ? plan : undefined)
const writeOf = (plan: Plan | undefined) => (plan?.kind === 'write' ? plan.write : undefined)

describe('before its body is there', () => {
  test('an insert can come to one of no columns, whatever it is to answer', () => {
    const plans = plannedWithoutBody('POST /tasks', { headers: { prefer: 'return=representation' } })
    expect(plans).toMatchObject([{ kind: 'write', wants: 'representation', relation: own('tasks') }])
    expect(writeOf(plans[0])).toMatchObject({ kind: 'insert', source: { json: '[]', isArray: true, columns: [] } })
    expect(plannedWithoutBody('PUT /tasks?id=eq.1').map(writeOf)).toMatchObject([{ isPut: true, conditions: [{}] }])
    expect(refusal(() => plannedWithoutBody('PUT /tasks')).code).toBe('RST105')
  })
  test('an update can come to one of a column that can be written', () => {
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
  test('what has no body can come to nothing else', () => {
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

    test('can mean each function of its name, with arguments that say nothing', () => {
      const [one, , two] = routines
      const parametersOf = (routine: Routine | undefined) =>
        routine?.parameters.map(parameter => ({ parameter, key: parameter.name }))
      expect(calls('POST /rpc/f')).toEqual([
        ['a integer', { kind: 'json', json: '{}', isArray: false, parameters: parametersOf(one) }],
        [' jsonb', { kind: 'unnamed', value: '{}', type: 'jsonb' }],
        ['a text,b integer', { kind: 'json', json: '{}', isArray: false, parameters: parametersOf(two) }],
      ])
    })
    test('means the one whose columns are named', () => {
      expect(calls('POST /rpc/f?columns=b,a').map(([names]) => names)).toEqual(['a text,b integer'])
      expect(calls('POST /rpc/f?columns=x').map(([names]) => names)).toEqual([' jsonb'])
      expect(refusal(() => calls('POST /rpc/take_text?columns=x')).code).toBe('RST202')
    })
    test.each([
      ['take_text', 'text/plain', 'text', ''],
      ['take_xml', 'text/xml', 'xml', '<a/>'],
      ['take_bytes', 'application/octet-stream', 'bytea', ''],
    ])('with a body that has no names means the one that takes it: %s', (name, contentType, of, value) => {
      expect(calls(`POST /rpc/${name}`, contentType)).toEqual([[` ${of}`, { kind: 'unnamed', value, type: of }]])
      expect(refusal(() => calls('POST /rpc/take_json', contentType)).code).toBe('RST202')
    })
    test('of a form can mean any, as one of json can, whatever columns are named', () => {
      expect(calls('POST /rpc/take_json')).toEqual([[' json', { kind: 'unnamed', value: '{}', type: 'json' }]])
      expect(calls('POST /rpc/f', 'application/x-www-form-urlencoded')).toHaveLength(3)
      expect(calls('POST /rpc/f?columns=x', 'application/x-www-form-urlencoded')).toHaveLength(3)
    })
    test('of no function says what was looked for, and what was perhaps meant', () => {
      expect(refusal(() => calls('POST /rpc/take_jso'))).toMatchObject({
        ...{ status: 404, code: 'RST202', hint: 'Perhaps you meant to call the function test.take_json' },
        message: 'Could not find the function test.take_jso in the schema cache',
        details: 'Searched for functions of the name test.take_jso, but no matches were found in the schema cache.',
      })
      expect(refusal(() => calls('POST /rpc/elephant')).hint).toBeNull()
    })
  })
})

describe('the function at the root', () => {
  const elsewhere = { ...routine('start', []), schema: 'other' }
  const cache = cacheOf({ routines: [routine('start', []), routine('a.b', [])] })
  const both = { ...cache, routines: new Map([...cache.routines, ['other', new Map([['start', [elsewhere]]])]]) }
  const called = (line: string, rootFunction?: string) => callOf(planned(line, {}, both, {}, rootFunction))?.routine

  test('is of the schema of the request, or of the one that it is named with', () => {
    expect(called('GET /', 'start')).toMatchObject(own('start'))
    expect(called('GET /', 'other.start')).toBe(elsewhere)
  })
  test('alone is named with a schema', () => {
    expect(called('GET /rpc/a.b')).toMatchObject(own('a.b'))
    expect(refusal(() => called('GET /rpc/other.start')).code).toBe('RST202')
  })
})
