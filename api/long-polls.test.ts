/** `Prefer: wait` from a tenant that exceeds its share. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Client, startClient, until } from './testing/client.ts'

const share = 500
let client: Client
beforeAll(async () => {
  client = await startClient()
})
afterAll(() => client.close())

test("one tenant cannot use up other tenants' long polls", async () => {
  const prefer = { prefer: 'wait=60' }
  let answered = 0
  const create = async (tenant: string) => {
    const body = { name: 'held', region: 'local', size: 'small' }
    return `/databases/${(await client.call('POST', '/databases', { body, claims: { tenant } })).body.id}`
  }
  const [greedy, modest] = [await create('greedy'), await create('modest')]
  const wait = async (path: string, tenant: string) => {
    const answer = await client.call('GET', path, { claims: { tenant }, headers: prefer })
    answered++
    return answer.headers['preference-applied']
  }
  const waiting = Array.from({ length: share + 20 }, () => wait(greedy, 'greedy'))
  // Only requests above the share are answered immediately.
  await until(() => answered === 20)
  const other = wait(modest, 'modest')
  await client.call('DELETE', greedy, { claims: { tenant: 'greedy' } })
  await client.call('DELETE', modest, { claims: { tenant: 'modest' } })
  expect(await other).toBe('wait=60')
  const applied = await Promise.all(waiting)
  expect(applied.filter(value => value === undefined)).toHaveLength(20)
  // Released slots can be used again: the full share waits, and one more request is answered immediately.
  const again = await create('greedy')
  const before = answered
  const second = Array.from({ length: share + 1 }, () => wait(again, 'greedy'))
  await until(() => answered === before + 1)
  await client.call('DELETE', again, { claims: { tenant: 'greedy' } })
  expect((await Promise.all(second)).filter(value => value === 'wait=60')).toHaveLength(share)
})
