import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { allowlistState, contains, maskCidr, parseAddress, parseCidr, renderCidr } from './cidr.ts'

describe('maskCidr', () => {
  test.each([
    ['203.0.113.7', '203.0.113.7/32'],
    ['203.0.113.7/32', '203.0.113.7/32'],
    ['203.0.113.7/24', '203.0.113.0/24'],
    ['255.255.255.255/1', '128.0.0.0/1'],
    ['203.0.113.7/0', '0.0.0.0/0'],
    ['0.0.0.0', '0.0.0.0/32'],
  ])('%s is stored as %s', (text, stored) => {
    expect(maskCidr(text)).toBe(stored)
  })

  test.each([
    ['IPv6', '2001:db8::1'],
    ['IPv6 block', '::/0'],
    ['IPv4 mapped into IPv6', '::ffff:203.0.113.7'],
    ['octet over 255', '203.0.113.256'],
    ['octet with a leading zero, which some programs read as octal', '203.0.113.07'],
    ['three octets', '203.0.113'],
    ['five octets', '203.0.113.7.1'],
    ['prefix over 32', '203.0.113.0/33'],
    ['prefix with a leading zero', '203.0.113.0/08'],
    ['negative prefix', '203.0.113.0/-1'],
    ['empty prefix', '203.0.113.0/'],
    ['two prefixes', '203.0.113.0/24/24'],
    ['leading space', ' 203.0.113.7'],
    ['trailing line feed', '203.0.113.7\n'],
    ['hexadecimal', '0xcb.0.113.7'],
    ['host name', 'localhost'],
    ['empty', ''],
  ])('%s is refused', (_name, text) => {
    expect(maskCidr(text)).toBeUndefined()
  })
})

test('an address is not a block', () => {
  expect(parseAddress('203.0.113.7')).toBe(0xcb007107)
  expect(parseAddress('203.0.113.7/32')).toBeUndefined()
})

const address = fc.integer({ min: 0, max: 0xffffffff })
const prefix = fc.integer({ min: 0, max: 32 })

test('masking is idempotent and keeps the address inside', () => {
  fc.assert(
    fc.property(address, prefix, (number, bits) => {
      const stored = maskCidr(renderCidr({ network: number, prefix: bits })) ?? ''
      expect(maskCidr(stored)).toBe(stored)
      const block = parseCidr(stored)
      expect(block && contains(block, number)).toBe(true)
    }),
  )
})

test('a block contains exactly the addresses that share its leading bits', () => {
  fc.assert(
    fc.property(address, prefix, address, (number, bits, other) => {
      const block = parseCidr(renderCidr({ network: number, prefix: bits }))
      const leading = (value: number) => value.toString(2).padStart(32, '0').slice(0, bits)
      expect(block && contains(block, other)).toBe(leading(other) === leading(number))
    }),
  )
})

describe('allowlistState', () => {
  test.each([
    [[], 'closed'],
    [['203.0.113.0/24'], 'restricted'],
    [['0.0.0.0/1', '128.0.0.0/1'], 'restricted'],
    [['203.0.113.0/24', '0.0.0.0/0'], 'open'],
    [['203.0.113.7/0'], 'open'],
  ] as const)('%j is %s', (cidrs, state) => {
    expect(allowlistState(cidrs)).toBe(state)
  })
})
