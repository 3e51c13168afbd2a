import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { clientAddress, isBlock, trustedBlocks } from './address.ts'

const proxies = trustedBlocks(['10.0.0.0/8', '127.0.0.1', 'fd00::/8', '2001:db8::7'])

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
    ['what an IPv6 proxy has written', 'fd12::1', '2001:db8::1', '2001:db8::1'],
    ['what a proxy of one IPv6 address has written', '2001:db8:0::7', '198.51.100.1, fd12::2', '198.51.100.1'],
    ['an IPv6 address that no proxy has', '2001:db8::8', '198.51.100.1', '2001:db8::8'],
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
    for (const text of ['10.0.0.0/33', '::/129', '10.0.0.0/', 'fe80::1%eth0', 'proxy', '1.2.3.4/8/8', '']) {
      expect(() => trustedBlocks([text])).toThrow(`${JSON.stringify(text)} is no IP address or CIDR block`)
      expect(isBlock(text)).toBe(false)
    }
    for (const text of ['10.0.0.0/8', '::1', 'fd00::/8', '::ffff:10.0.0.1']) expect(isBlock(text)).toBe(true)
  })
})
