import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { claimAddresses, networksInUse } from './addresses.ts'

async function claim(preferred?: number) {
  const pool = await claimAddresses(preferred)
  onTestFinished(() => pool.close())
  return pool
}

/**
 * A network of the upper half. Runtimes of other tests on this machine reserve the lowest unused network, so they do
 * not reserve this one while a test has released it.
 */
const distantNetwork = () => randomInt(128, 255)

describe('claimAddresses', () => {
  test('two reservations never share a network, and a released network can be reserved again', async () => {
    const one = await claim(distantNetwork())
    const network = one.network
    expect((await claim(network)).network).not.toBe(network)
    expect((await claim()).network).not.toBe(network)
    await one.close()
    expect((await claim(network)).network).toBe(network)
  })

  test('a network in which pods of a killed runtime listen is reserved only if it is preferred', async () => {
    const killed = await claim(distantNetwork())
    await killed.close()
    const orphan = createServer()
    await new Promise<void>(resolve => orphan.listen(0, `127.${killed.network}.1.3`, resolve))
    onTestFinished(() => void orphan.close())
    expect((await claim()).network).not.toBe(killed.network)
    expect((await claim(killed.network)).network).toBe(killed.network)
  })

  test('addresses are bindable, distinct, and not reused at once', async () => {
    const pool = await claim(200)
    const first = pool.allocate()
    pool.release(first)
    const second = pool.allocate()
    expect(second).not.toBe(first)
    expect(first).toMatch(new RegExp(`^127\\.${pool.network}\\.\\d+\\.\\d+$`))
    const server = createServer()
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(0, second, resolve)
    })
    await new Promise(resolve => server.close(resolve))
  })

  test('the first and last addresses of a network are not used, and a released address is used again later', async () => {
    const pool = await claim(201)
    const all = new Set<string>()
    expect(() => {
      for (;;) all.add(pool.allocate())
    }).toThrow('in use')
    expect([...all].some(address => /\.(0|255)$/.test(address) || /^127\.\d+\.0\./.test(address))).toBe(false)
    expect(all.size).toBeGreaterThan(60_000)
    const [some = ''] = all
    pool.release(some)
    expect(pool.allocate()).toBe(some)
  })
})

test('networksInUse returns the networks of listening sockets on loopback addresses', () => {
  const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0B01037F:1538 00000000:0000 0A 00000000:00000000 00:00000000 00000000 65534        0 4185857 1
   1: 0801047F:1538 0100047F:9C42 01 00000000:00000000 00:00000000 00000000 65534        0 4185858 1
   2: 3F00F40A:1538 00000000:0000 0A 00000000:00000000 00:00000000 00000000 65534        0 4185859 1
   3: 0100C87F:A0B1 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4185860 1
`
  expect([...networksInUse(table)]).toEqual([3, 200])
  expect(networksInUse('').size).toBe(0)
})
