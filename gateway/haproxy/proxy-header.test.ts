import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { field, headerOf, proxyHeader } from '../testing/proxy-header.ts'
import { longestHeader, readProxyHeader } from './proxy-header.ts'

const uniqueId = (text: string) => field(0x05, Buffer.from(text))

describe('readProxyHeader', () => {
  test('reads the source and the unique id, with any other fields', () => {
    const header = proxyHeader({
      source: '203.0.113.7',
      port: 4711,
      fields: [field(0x01, Buffer.from('h2')), uniqueId('20000 denied'), field(0x04, Buffer.alloc(7))],
    })
    expect(readProxyHeader(Buffer.concat([header, Buffer.from('more')]))).toEqual({
      kind: 'header',
      length: header.length,
      source: '203.0.113.7',
      uniqueId: '20000 denied',
    })
  })

  test('reads an IPv6 source', () => {
    expect(readProxyHeader(proxyHeader({ source: '::ffff:1.2.3.4', port: 1 }))).toMatchObject({
      kind: 'header',
      source: '0:0:0:0:0:ffff:102:304',
      uniqueId: undefined,
    })
  })

  test('recognises a health check', () => {
    expect(readProxyHeader(headerOf(0x20, 0x00, Buffer.alloc(0)))).toEqual({ kind: 'local', length: 16 })
  })

  test.each<[string, Buffer]>([
    ['of version 1', Buffer.from('PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n')],
    ['of another command', headerOf(0x22, 0x11, Buffer.alloc(12))],
    ['of another version', headerOf(0x31, 0x11, Buffer.alloc(12))],
    ['of UDP', headerOf(0x21, 0x12, Buffer.alloc(12))],
    ['of a Unix socket', headerOf(0x21, 0x31, Buffer.alloc(216))],
    ['too short for its family', headerOf(0x21, 0x11, Buffer.alloc(11))],
    ['too short for IPv6', headerOf(0x21, 0x21, Buffer.alloc(35))],
    ['with an incomplete field', headerOf(0x21, 0x11, Buffer.alloc(14))],
    ['with a field beyond its end', headerOf(0x21, 0x11, Buffer.concat([Buffer.alloc(12), Buffer.from([5, 0, 9, 1])]))],
    ['that is too long', headerOf(0x21, 0x11, Buffer.alloc(longestHeader))],
    ['that is an HTTP request', Buffer.from('GET / HTTP/1.1\r\n\r\n')],
  ])('refuses a header %s', (_name, bytes) => {
    expect(readProxyHeader(bytes).kind).toBe('invalid')
  })

  test('returns a `need` above the received length, and at most the length of the header, if the header is incomplete', () => {
    const header = proxyHeader({ source: '203.0.113.7', port: 1, fields: [uniqueId('20000 closed')] })
    for (let length = 0; length < header.length; length++) {
      const read = readProxyHeader(header.subarray(0, length))
      expect(read.kind).toBe('incomplete')
      if (read.kind === 'incomplete') {
        expect(read.need).toBeGreaterThan(length)
        expect(read.need).toBeLessThanOrEqual(header.length)
      }
    }
  })

  test('handles any bytes, also after a valid start', () => {
    const any = fc.uint8Array({ maxLength: 400 }).map(bytes => Buffer.from(bytes))
    const begun = fc
      .record({ command: fc.constantFrom(0x20, 0x21), family: fc.constantFrom(0x11, 0x21, 0x00), body: any })
      .map(({ command, family, body }) => headerOf(command, family, body))
    const truncated = fc.tuple(begun, fc.nat(420)).map(([bytes, length]) => bytes.subarray(0, length))
    fc.assert(
      fc.property(fc.oneof(any, begun, truncated), bytes => {
        const read = readProxyHeader(bytes)
        if (read.kind === 'incomplete') {
          expect(read.need).toBeGreaterThan(bytes.length)
          expect(read.need).toBeLessThanOrEqual(longestHeader)
        }
        if (read.kind === 'header') {
          expect(read.length).toBeLessThanOrEqual(bytes.length)
          expect((read.uniqueId ?? '').length).toBeLessThan(read.length)
        }
      }),
      { numRuns: 2_000 },
    )
  })
})
