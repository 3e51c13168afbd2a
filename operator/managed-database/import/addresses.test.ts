import { expect, test } from 'vitest'
import { addressOf, isAllowed } from './addresses.ts'

test.each([
  '127.0.0.1',
  '10.1.2.3',
  '172.31.0.1',
  '192.168.1.1',
  '169.254.169.254',
  '100.64.0.1',
  '0.0.0.0',
  '224.0.0.1',
  '255.255.255.255',
  '::',
  '::1',
  '::7f00:1',
  'fe80::1',
  'fd00:ec2::254',
  'ff02::1',
  '::ffff:10.0.0.1',
  '::ffff:a00:1',
  '64:ff9b::a00:1',
  '2001:0:a00:1::',
  '2002:a00:1::',
  'no address',
])('%s is refused', address => {
  expect(isAllowed(address, [])).toBe(false)
})

test.each(['198.51.100.7', '8.8.8.8', '172.32.0.1', '2001:db8::1', '::ffff:8.8.8.8'])('%s is allowed', address => {
  expect(isAllowed(address, [])).toBe(true)
})

test('an installation can allow more blocks', () => {
  expect(isAllowed('10.1.2.3', ['10.1.0.0/16'])).toBe(true)
  expect(isAllowed('10.2.2.3', ['10.1.0.0/16', 'fd00::/8'])).toBe(false)
  expect(isAllowed('fd00::1', ['10.1.0.0/16', 'fd00::/8'])).toBe(true)
})

test('a name is refused if any of its addresses is, and is pinned to one', async () => {
  const named = (...addresses: string[]) => addressOf('db.example.com', [], async () => addresses)
  await expect(named('198.51.100.7', '2001:db8::1')).resolves.toBe('198.51.100.7')
  await expect(named('198.51.100.7', '10.0.0.1')).rejects.toMatchObject({ fault: 'SourceRefused' })
  await expect(addressOf('127.0.0.1', [])).rejects.toMatchObject({ fault: 'SourceRefused' })
})

/** The refusal of a name whose resolution ends so. */
const refusalOf = (resolve: () => Promise<string[]>) =>
  addressOf('db.example.com', [], resolve).then(
    () => undefined,
    ({ fault, message }) => ({ fault, message }),
  )
const failing = (code: string) => () => Promise.reject(Object.assign(new Error('db.example.com'), { code }))

test('a name that does not exist is refused as one in the cluster is', async () => {
  const internal = await refusalOf(async () => ['10.96.0.1'])
  expect(internal).toMatchObject({
    fault: 'SourceRefused',
    message: expect.stringMatching(/^the host .* does not exist, or/),
  })
  expect(await refusalOf(failing('ENOTFOUND'))).toEqual(internal)
  expect(await refusalOf(async () => [])).toEqual(internal)
})

test('a query that fails is repeated', async () => {
  expect(await refusalOf(failing('EAI_AGAIN'))).toMatchObject({
    fault: 'SourceUnreachable',
    message: 'the host of the source cannot be resolved now (EAI_AGAIN)',
  })
})
