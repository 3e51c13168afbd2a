import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { clientAddress, isBlock, trustedBlocks } from './address.ts'

const proxies = trustedBlocks(['10.0.0.0/8', '127.0.0.1', 'fd00::/8', '2001:db8::7'])

describe('the client address of a request', () => {
  test.each([
    ['the address of the socket', '203.0.113.7', undefined, '203.0.113.7'],
    ["the socket's address, if it is not a trusted proxy", '203.0.113.7', '198.51.100.1', '203.0.113.7'],
    ['the address that a trusted proxy wrote', '10.1.2.3', '198.51.100.1', '198.51.100.1'],
    [
      "the proxy's entry, and not the entry to its left, which the client wrote",
      '10.1.2.3',
      '1.1.1.1, 198.51.100.1',
      '198.51.100.1',
    ],
    ['the first address behind all trusted proxies', '10.1.2.3', '1.1.1.1, 198.51.100.1, 10.9.9.9', '198.51.100.1'],
    ['the address of a trusted proxy that sends no header', '10.1.2.3', undefined, '10.1.2.3'],
    [
      'the address of the trusted proxy, if the next address of the header is invalid',
      '10.1.2.3',
      '198.51.100.1, nonsense',
      '10.1.2.3',
    ],
    [
      'the address that a proxy wrote, if both addresses are IPv4 addresses in IPv6 form',
      '::ffff:127.0.0.1',
      '::ffff:198.51.100.1',
      '198.51.100.1',
    ],
    ['an IPv6 address behind a proxy', '10.1.2.3', '2001:db8::1', '2001:db8::1'],
    ['the address that an IPv6 proxy wrote', 'fd12::1', '2001:db8::1', '2001:db8::1'],
    [
      'the address that a proxy wrote, if the IPv6 address of the proxy is trusted, also in another spelling',
      '2001:db8:0::7',
      '198.51.100.1, fd12::2',
      '198.51.100.1',
    ],
    ['an IPv6 address that is not a trusted proxy', '2001:db8::8', '198.51.100.1', '2001:db8::8'],
    ['empty on a Unix socket', undefined, '198.51.100.1', ''],
  ])('is %s', (_, peer, header, expected) => {
    expect(clientAddress(peer, header, proxies)).toBe(expected)
  })

  test("is the socket's address for any header of an untrusted peer", () => {
    fc.assert(
      fc.property(fc.string(), header => {
        expect(clientAddress('203.0.113.7', header, proxies)).toBe('203.0.113.7')
      }),
    )
  })
})

test('invalid blocks of trusted proxies are rejected', () => {
  for (const text of ['10.0.0.0/33', '::/129', '10.0.0.0/', 'fe80::1%eth0', 'proxy', '1.2.3.4/8/8', '']) {
    expect(() => trustedBlocks([text])).toThrow(`${JSON.stringify(text)} is not an IP address or CIDR block`)
    expect(isBlock(text)).toBe(false)
  }
  for (const text of ['10.0.0.0/8', '::1', 'fd00::/8', '::ffff:10.0.0.1']) expect(isBlock(text)).toBe(true)
})
