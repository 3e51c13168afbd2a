import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { SealError } from './credentials.ts'
import { modelKeyField, openMinted, openServiceKeys, sealedData, withoutKeysOfSource } from './service-keys.ts'

const key = randomBytes(32)
const place = { namespace: 'espalier-t-1', name: 'db-1-keys-0a1b2c3d' }
const plain = (values: Record<string, string>) =>
  Object.fromEntries(Object.entries(values).map(([field, value]) => [field, Buffer.from(value).toString('base64')]))

test('keys open that were sealed for their Secret, beside those that a user wrote plain', () => {
  const secret = {
    metadata: place,
    data: { ...sealedData(key, place, { jwt_secret: 's'.repeat(32) }), ...plain({ init_tokens: 'one,two' }) },
  }
  expect(openServiceKeys(key, secret)).toEqual({ jwt_secret: 's'.repeat(32), init_tokens: 'one,two' })
})

test('a value that was sealed for another Secret or field does not open', () => {
  const data = sealedData(key, place, { jwt_secret: 's'.repeat(32) })
  expect(() => openServiceKeys(key, { metadata: { ...place, name: 'another' }, data })).toThrow(SealError)
  expect(() => openServiceKeys(key, { metadata: place, data: { init_tokens: data.jwt_secret ?? '' } })).toThrow(
    SealError,
  )
})

test('fields that are no keys of services are not read', () => {
  const data = plain({
    'tls.key': 'no',
    [modelKeyField('embedding_llm')]: 'yes',
    [modelKeyField('completion_llm', 'docs-1')]: 'yes',
    'pipelines..embedding_llm_api_key': 'no',
  })
  expect(Object.keys(openServiceKeys(key, { metadata: place, data }))).toEqual([
    'embedding_llm_api_key',
    'pipelines.docs-1.completion_llm_api_key',
  ])
})

test('what the operator minted is never plain', () => {
  expect(openMinted(key, { metadata: place, data: sealedData(key, place, { token: 'abc' }) }, 'token')).toBe('abc')
  expect(openMinted(key, { metadata: place }, 'token')).toBeUndefined()
  expect(() => openMinted(key, { metadata: place, data: plain({ token: 'abc' }) }, 'token')).toThrow(SealError)
})

test('a branch takes neither tokens nor users of its source', () => {
  expect(withoutKeysOfSource({ init_tokens: 'a', init_users: 'b:c', embedding_api_key: 'd' })).toEqual({
    embedding_api_key: 'd',
  })
})
