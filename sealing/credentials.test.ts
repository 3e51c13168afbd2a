import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { open, SealError, seal, secretLocation } from './credentials.ts'

const key = randomBytes(32)
const location = secretLocation('espalier-t-1', 'db-1-credentials', 'app')

test('an encrypted value can be decrypted', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.string(), (value, where) => {
      expect(open(key, where, seal(key, where, value))).toBe(value)
    }),
  )
})

test('the same value is encrypted differently each time, and not visible', () => {
  const sealed = [seal(key, location, 'correct horse'), seal(key, location, 'correct horse')]
  expect(sealed[0]).not.toBe(sealed[1])
  for (const text of sealed) {
    expect(text).toMatch(/^sealed\.v1\.[A-Za-z0-9_-]+$/)
    expect(Buffer.from(text.slice(10), 'base64url').includes('correct')).toBe(false)
  }
})

describe('a value cannot be decrypted', () => {
  const sealed = seal(key, location, 'correct horse')
  const flipped = (index: number): string => {
    const bytes = Buffer.from(sealed.slice(10), 'base64url')
    bytes[index] = (bytes[index] ?? 0) ^ 1
    return `sealed.v1.${bytes.toString('base64url')}`
  }
  test.each<[string, Uint8Array, string, string]>([
    ['with another key', randomBytes(32), location, sealed],
    ['with a key of the wrong length', randomBytes(16), location, sealed],
    ['at another location', key, secretLocation('espalier-t-2', 'db-1-credentials', 'app'), sealed],
    ['under another key of its Secret', key, secretLocation('espalier-t-1', 'db-1-credentials', 'admin'), sealed],
    ['with its nonce changed', key, location, flipped(0)],
    ['with its tag changed', key, location, flipped(12)],
    ['with its text changed', key, location, flipped(28)],
    ['with a short tag', key, location, `sealed.v1.${Buffer.alloc(20).toString('base64url')}`],
    ['with nothing in it', key, location, 'sealed.v1.'],
    ['unsealed', key, location, 'correct horse'],
    ['of another version', key, location, sealed.replace('v1', 'v2')],
  ])('%s', (_name, withKey, where, text) => {
    expect(() => open(withKey, where, text)).toThrow(SealError)
  })

  test('and the error contains neither the value nor the key', () => {
    const error = (() => {
      try {
        return open(randomBytes(32), location, sealed)
      } catch (thrown) {
        return thrown
      }
    })()
    expect(String(error)).toBe(`SealError: the value at ${location} cannot be decrypted with the installation's key`)
  })
})
