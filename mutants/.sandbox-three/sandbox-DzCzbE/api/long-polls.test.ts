/** Prefer: wait, by a tenant who asks for more than their share. */
// @ts-nocheck

import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Client, startClient, until } from './testing/client.ts'

const share = 500
let client: Client
beforeAll(async () => {
  client = await startClient()
})
afterAll(() => client.close())

test('one tenant cannot take the long polls of the others', async () => {
  const prefer = { prefer: 'wait=60' }
  let answered = 0
  const create = async (tenant: string) => {
    const body = { name: 'held', region: 'local', size: 'small' }
    return `/databases/${(await client.call('POST', '/databases', { body, claims: { tenant } })).body.id}`
  }
  const [theirs, ours] = [await create('greedy'), await create('modest')]
  const wait = async (path: string, tenant: string) => {
    const answer = await client.call('GET', path, { claims: { tenant }, headers: prefer })
    answered++
    return answer.headers['preference-applied']
  }
  const held = Array.from({ length: share + 20 }, () => wait(theirs, 'greedy'))
  // Those beyond the share are answered at once, and nobody else is.
  await until(() => answered === 20)
  const other = wait(ours, 'modest')
  await client.call('DELETE', theirs, { claims: { tenant: 'greedy' } })
  await client.call('DELETE', ours, { claims: { tenant: 'modest' } })
  expect(await other).toBe('wait=60')
  const applied = await Promise.all(held)
  expect(applied.filter(value => value === undefined)).toHaveLength(20)
  // What was given back can be had again: all of the share is held, and one beyond it is not.
  const again = await create('greedy')
  const before = answered
  const anew = Array.from({ length: share + 1 }, () => wait(again, 'greedy'))
  await until(() => answered === before + 1)
  await client.call('DELETE', again, { claims: { tenant: 'greedy' } })
  expect((await Promise.all(anew)).filter(value => value === 'wait=60')).toHaveLength(share)
})
