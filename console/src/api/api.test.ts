import { describe, expect, test } from 'vitest'
import { changeOf, staleKeys } from './events.ts'
import { createParser } from './sse.ts'
import { claimsOf } from './token.ts'

describe('Server-Sent Events', () => {
  const stream = ': hello\r\n\r\nevent: change\r\ndata: {"a":1}\r\n\r\ndata: one\ndata: two\n\nevent: empty\n\n'
  const expected = [
    { event: 'change', data: '{"a":1}' },
    { event: 'message', data: 'one\ntwo' },
  ]

  test('do not depend on how the text is divided into chunks', () => {
    for (let size = 1; size <= stream.length; size++) {
      const parse = createParser()
      const events = []
      for (let at = 0; at < stream.length; at += size) events.push(...parse(stream.slice(at, at + size)))
      expect(events).toEqual(expected)
    }
  })

  test('a line above the maximum length is discarded', () => {
    const parse = createParser()
    parse('data: ')
    for (let count = 0; count < 10; count++) parse('x'.repeat(100_000))
    expect(parse('\n\ndata: next\n\n')).toEqual([{ event: 'message', data: 'next' }])
  })

  test.each(['\n', '\r\n', '\r'])('the rest of a line that is too long is discarded, up to the line end %j', end => {
    const parse = createParser()
    parse('x'.repeat(100_000))
    expect(parse(`data: of the long line${end}`)).toEqual([])
    expect(parse(`data: next${end}${end}data`)).toEqual([{ event: 'message', data: 'next' }])
  })
})

describe('changes', () => {
  test('make the queries of the changed object stale', () => {
    const change = changeOf('{"kind":"branch","id":"b","database_id":"d","status":"available"}')
    expect(change && staleKeys(change)).toEqual([['branches', 'd'], ['database', 'd'], ['databases']])
  })

  test.each(['', 'null', '[]', '{"kind":1}', '{"kind":"task"}'])('%j is not a change', data => {
    expect(changeOf(data)).toBeUndefined()
  })

  test('an unknown kind makes no query stale', () => {
    expect(staleKeys({ kind: 'unknown', id: '1', databaseId: undefined, status: undefined })).toEqual([])
  })
})

describe('tokens', () => {
  const tokenOf = (payload: object) =>
    `x.${btoa(String.fromCharCode(...new TextEncoder().encode(JSON.stringify(payload))))}.y`

  test('contain the tenant and the user', () => {
    expect(claimsOf(tokenOf({ tenant: 'acme', sub: 'ümit', exp: 5 }))).toEqual({
      ...{ label: 'acme / ümit', tenant: 'acme', subject: 'ümit', expiresAt: 5000 },
    })
  })

  test.each(['', 'opaque', 'a.b.c', tokenOf([1])])('%j has the default label', token => {
    expect(claimsOf(token).label).toBe('token')
  })
})
