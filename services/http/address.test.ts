import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { clientAddress, trustedBlocks } from './address.ts'

const proxies = trustedBlocks(['10.0.0.0/8', '127.0.0.1'])

describe('whose request it is', () => {
  test.each([
    ['the other end', '203.0.113.7', undefined, '203.0.113.7'],
    ['the other end, whatever a stranger claims', '203.0.113.7', '198.51.100.1', '203.0.113.7'],
    ['what a trusted proxy has written', '10.1.2.3', '198.51.100.1', '198.51.100.1'],
    ['nothing that the client has written before it', '10.1.2.3', '1.1.1.1, 198.51.100.1', '198.51.100.1'],
    ['the first behind all trusted ones', '10.1.2.3', '1.1.1.1, 198.51.100.1, 10.9.9.9', '198.51.100.1'],
    ['a trusted proxy by itself', '10.1.2.3', undefined, '10.1.2.3'],
    ['the last known where the header is no address', '10.1.2.3', '198.51.100.1, nonsense', '10.1.2.3'],
    ['an IPv4 address of a socket for both kinds', '::ffff:127.0.0.1', '::ffff:198.51.100.1', '198.51.100.1'],
    ['an IPv6 address behind a proxy', '10.1.2.3', '2001:db8::1', '2001:db8::1'],
    ['nobody’s on a Unix socket', undefined, '198.51.100.1', ''],
  ])('is %s', (_, peer, header, expected) => {
    expect(clientAddress(peer, header, proxies)).toBe(expected)
  })

  test('is never what a stranger says', () => {
    fc.assert(
      fc.property(fc.string(), header => {
        expect(clientAddress('203.0.113.7', header, proxies)).toBe('203.0.113.7')
      }),
    )
  })

  test('takes no block that is none', () => {
    expect(() => trustedBlocks(['10.0.0.0/33'])).toThrow('"10.0.0.0/33" is no IPv4 address or CIDR block')
  })
})
