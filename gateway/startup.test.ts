import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { longestStartup, readStartup, type StartupRequest } from './startup.ts'

const packet = (code: number, body: Buffer = Buffer.alloc(0), length = 8 + body.length): Buffer => {
  const head = Buffer.alloc(8)
  head.writeUInt32BE(length, 0)
  head.writeUInt32BE(code, 4)
  return Buffer.concat([head, body])
}
const version = (major: number, minor: number) => major * 65536 + minor
const parameters = Buffer.from('user\0app\0database\0app\0\0')
const startup = packet(version(3, 0), parameters)

describe('readStartup', () => {
  test.each<[string, Buffer, StartupRequest['kind']]>([
    ['SSLRequest', packet(80877103), 'tls-request'],
    ['GSSENCRequest', packet(80877104), 'gss-request'],
    ['CancelRequest', packet(80877102, Buffer.alloc(8)), 'cancel'],
    ['CancelRequest with the long key of protocol 3.2', packet(80877102, Buffer.alloc(260)), 'cancel'],
    ['StartupMessage of protocol 3.0', startup, 'startup'],
    ['StartupMessage of protocol 3.2', packet(version(3, 2), parameters), 'startup'],
    ['StartupMessage without parameters', packet(version(3, 0), Buffer.from([0])), 'startup'],
    ['StartupMessage of the maximum length', packet(version(3, 0), Buffer.alloc(longestStartup - 8)), 'startup'],
    ['StartupMessage followed by more bytes', Buffer.concat([startup, Buffer.from('more')]), 'startup'],
    ['ClientHello', Buffer.from([0x16, 3, 1]), 'direct-tls'],
    ['nothing', Buffer.alloc(0), 'incomplete'],
    ['an incomplete header', startup.subarray(0, 7), 'incomplete'],
    ['an incomplete StartupMessage', startup.subarray(0, 20), 'incomplete'],
    ['HTTP', Buffer.from('GET / HTTP/1.1\r\n'), 'invalid'],
    ['protocol 2', packet(version(2, 0), parameters), 'invalid'],
    ['protocol 4', packet(version(4, 0), parameters), 'invalid'],
    ['length 0', packet(version(3, 0), parameters, 0), 'invalid'],
    ['length 7', packet(version(3, 0), parameters, 7), 'invalid'],
    ['a StartupMessage that is only a header', packet(version(3, 0)), 'invalid'],
    ['a length above the maximum', packet(version(3, 0), parameters, longestStartup + 1), 'invalid'],
    ['a negative length', Buffer.from([0xff, 0xff, 0xff, 0xff, 0, 3, 0, 0]), 'invalid'],
    ['an SSLRequest with a body', packet(80877103, Buffer.alloc(4)), 'invalid'],
    ['parameters without a terminator', packet(version(3, 0), Buffer.from('user\0app')), 'invalid'],
  ])('%s', (_name, bytes, kind) => {
    expect(readStartup(bytes).kind).toBe(kind)
  })

  /** Bytes that are often similar enough to valid bytes to pass the first checks. */
  const hostile = fc.oneof(
    fc.uint8Array({ maxLength: 200 }),
    fc
      .tuple(
        fc.oneof(fc.constantFrom(80877102, 80877103, 80877104, version(3, 0), version(3, 2)), fc.nat()),
        fc.uint8Array({ maxLength: 200 }),
        fc.oneof(fc.integer({ min: 0, max: 250 }), fc.integer({ min: 0, max: 0xffffffff })),
      )
      .map(([code, body, length]) => packet(code, Buffer.from(body), length)),
  )

  test('with any input, it never throws, and never requires more than the maximum length', () => {
    fc.assert(
      fc.property(hostile, bytes => {
        const request = readStartup(Buffer.from(bytes))
        if (request.kind !== 'incomplete') return
        expect(request.need).toBeGreaterThan(bytes.length)
        expect(request.need).toBeLessThanOrEqual(longestStartup)
      }),
      { numRuns: 2000 },
    )
  })

  test('later bytes never change the result', () => {
    fc.assert(
      fc.property(hostile, fc.uint8Array({ maxLength: 50 }), (bytes, later) => {
        const received = Buffer.from(bytes)
        const parsed = readStartup(received)
        if (parsed.kind !== 'incomplete') expect(readStartup(Buffer.concat([received, later]))).toEqual(parsed)
      }),
      { numRuns: 2000 },
    )
  })

  test('byte by byte has the same result as all at once', () => {
    fc.assert(
      fc.property(hostile, bytes => {
        const complete = Buffer.from(bytes)
        let parsed = readStartup(Buffer.alloc(0))
        for (let size = 1; size <= complete.length && parsed.kind === 'incomplete'; size++)
          parsed = readStartup(complete.subarray(0, size))
        expect(parsed).toEqual(readStartup(complete))
      }),
      { numRuns: 500 },
    )
  })
})
