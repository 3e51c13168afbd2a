import { expect, test } from 'vitest'
import { domainResolves } from './catalogue.ts'

test.each([
  ['127.0.0.1', true],
  ['::1', true],
  ['192.0.2.7', false],
])('a domain whose names resolve to %s: %s', async (address, expected) => {
  expect(await domainResolves(() => Promise.resolve({ address }))).toBe(expected)
})

test('a region whose domain does not resolve has no HTTPS addresses', async () => {
  expect(await domainResolves(() => Promise.reject(new Error('ENOTFOUND')))).toBe(false)
})
