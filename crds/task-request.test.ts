import fc from 'fast-check'
import { expect, test } from 'vitest'
import { highestRequestBytes, taskRequest } from './task-request.ts'

const bytesOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value))

test('a request contains only listed fields, at every depth', () => {
  const secret = 'never-to-be-seen'
  const request = taskRequest({
    name: 'shop',
    display_name: null,
    options: ['a', 'b'],
    ip_allowlist: { rules: [{ cidr: '10.0.0.0/8', label: 'office', note: secret }], state: { deep: [secret] } },
    services: [
      {
        service_type: 'mcp',
        service_id: '01234567',
        ip_allowlist: { rules: [], state: secret },
        mcp_config: { embedding_api_key: secret, init_tokens: secret, init_users: `ada:${secret}` },
        uri: secret,
      },
      { service_type: 'rest', rest_config: { jwt_secret: secret } },
      { service_type: 'rag', rag_config: { embedding_llm: { provider: 'openai', model: 'm', api_key: secret } } },
    ],
    password: secret,
    __proto__: { region: secret },
  })
  expect(request).toEqual({
    name: 'shop',
    display_name: null,
    options: ['a', 'b'],
    ip_allowlist: { rules: [{ cidr: '10.0.0.0/8', label: 'office' }] },
    services: [
      { service_type: 'mcp', service_id: '01234567', ip_allowlist: { rules: [] } },
      { service_type: 'rest' },
      { service_type: 'rag' },
    ],
  })
})

test('a field that is too large is replaced by its size, the largest first, and the other fields are kept', () => {
  const rules = Array.from({ length: 50 }, (_, index) => ({ cidr: `10.0.0.${index}/32`, label: '𝕏'.repeat(64) }))
  const request = taskRequest({ display_name: 'Shop', ip_allowlist: { rules } })
  expect(request).toEqual({ display_name: 'Shop', ip_allowlist: expect.stringMatching(/^\(left out: \d+ bytes\)$/) })
  // Every response applies it again, so the result must not change.
  expect(taskRequest(request)).toEqual(request)
  expect(taskRequest({ name: 'x'.repeat(9000), region: 'local' })).toEqual({
    name: '(left out: 9000 bytes)',
    region: 'local',
  })
})

test('the largest field is replaced, at any position, and no more than necessary', () => {
  const label = 'l'.repeat(3000)
  const rules = { rules: [{ label }] }
  const options = ['o'.repeat(6000)]
  expect(taskRequest({ options, ip_allowlist: rules })).toEqual({
    options: '(left out: 6004 bytes)',
    ip_allowlist: rules,
  })
  expect(
    taskRequest({ options: ['o'], name: 'n'.repeat(5000), ip_allowlist: { rules: [{ label }, { label }] } }),
  ).toEqual({
    ...{ options: ['o'], name: 'n'.repeat(5000) },
    ip_allowlist: expect.stringMatching(/^\(left out: 6\d{3} bytes\)$/),
  })
})

test('8 KiB fit, and not one byte more', () => {
  const name = 'n'.repeat(highestRequestBytes - bytesOf({ name: '' }))
  expect(taskRequest({ name })).toEqual({ name })
  expect(taskRequest({ name: `${name}n` })).toEqual({ name: `(left out: ${name.length + 3} bytes)` })
})

test('a value longer than the limit is not even serialised', () => {
  const [most, more] = [highestRequestBytes, highestRequestBytes + 1]
  const list = (length: number) => taskRequest({ options: Array.from({ length }, () => 1) }).options
  // A list counts by its number of items, text by its bytes.
  expect([list(most), list(more)]).toEqual([`(left out: ${2 * most + 1} bytes)`, `(left out: ${more} bytes)`])
  const text = (length: number) => taskRequest({ name: 'n'.repeat(length) }).name
  expect([text(most), text(more)]).toEqual([`(left out: ${most + 2} bytes)`, `(left out: ${more} bytes)`])
})

test('a value of another type than listed is omitted', () => {
  expect(taskRequest({ name: { deep: 'x' }, ip_allowlist: 'open', options: [{ a: 1 }, ['b'], 'c'] })).toEqual({
    options: ['c'],
  })
})

test('8 KiB are enough for any request', () => {
  const field = fc.constantFrom('name', 'options', 'ip_allowlist', 'services', 'other')
  const value = fc.oneof(fc.jsonValue(), fc.string({ maxLength: 20_000, size: 'max' }))
  fc.assert(
    fc.property(fc.dictionary(field, value), request => bytesOf(taskRequest(request)) <= highestRequestBytes),
    { numRuns: 200 },
  )
})
