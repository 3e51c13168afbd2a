/** Header parsing, by table and by property. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bearerToken, preferredWait, saneRequestId, unverifiedAddress } from './headers.ts'

test.each([
  ['wait=10', 10],
  ['respond-async, wait=10', 10],
  ['WAIT="7"', 7],
  ['wait = 5 ; x=y', 5],
  ['wait=61', 60],
  ['wait=999999999', 60],
  ['wait=0', 0],
  [['handling=lenient', 'wait=3'], 3],
  ['await=10', undefined],
  ['wait=-1', undefined],
  ['wait=1.5', undefined],
  ['wait=', undefined],
  ['wait', undefined],
  ['', undefined],
  [undefined, undefined],
])('Prefer %j waits %j seconds', (value, seconds) => expect(preferredWait(value)).toBe(seconds))

test.each([
  [undefined, '::ffff:203.0.113.9', '203.0.113.9'],
  ['198.51.100.1', '127.0.0.1', '198.51.100.1'],
  [' 198.51.100.1 , 10.0.0.1', '127.0.0.1', '198.51.100.1'],
  ['198.51.100.1:443', '127.0.0.1', '198.51.100.1'],
  ['2001:db8::1', '127.0.0.1', '2001:db8::1'],
  ['[2001:db8::1]:443', '127.0.0.1', '2001:db8::1'],
  ['::ffff:198.51.100.1', '127.0.0.1', '198.51.100.1'],
  ['unknown, 198.51.100.1', '127.0.0.1', '127.0.0.1'],
  [', 198.51.100.1', '127.0.0.1', '127.0.0.1'],
  ['<script>', '::1', '::1'],
])('X-Forwarded-For %j from %s results in %s', (value, socket, address) => {
  expect(unverifiedAddress(value, socket)).toBe(address)
})

test.each([
  ['Bearer abc', 'abc'],
  ['bearer  a.b-c_d~e+f/g=', 'a.b-c_d~e+f/g='],
  ['Bearer abc ', 'abc'],
  ['Bearer', undefined],
  ['Bearer a b', undefined],
  ['Bearerabc', undefined],
  ['Basic abc', undefined],
  [undefined, undefined],
])('Authorization %j contains %j', (value, token) => expect(bearerToken(value)).toBe(token))

describe('arbitrary input', () => {
  test('an accepted request id is safe in a header and in a log line', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 200 }), text => {
        const sane = saneRequestId(text)
        if (sane !== undefined) expect(sane).toMatch(/^[\x21-\x7e]{1,128}$/)
      }),
    )
  })

  test('a wait is within its limits', () => {
    fc.assert(
      fc.property(fc.string(), fc.nat(), (text, number) => {
        for (const value of [text, `wait=${number}${text}`, `${text}wait=${number}`]) {
          const seconds = preferredWait(value)
          if (seconds !== undefined) expect(seconds >= 0 && seconds <= 60).toBe(true)
        }
      }),
    )
  })
})
