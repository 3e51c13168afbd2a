import { createServer } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { claimAddresses } from './addresses.ts'

async function claim(preferred?: number) {
  const pool = await claimAddresses(preferred)
  onTestFinished(() => pool.close())
  return pool
}

describe('claimAddresses', () => {
  test('two reservations never share a network, and a released network can be reserved again', async () => {
    const [one, two] = [await claim(), await claim()]
    expect(one.network).not.toBe(two.network)
    const network = one.network
    await one.close()
    expect((await claim(network)).network).toBe(network)
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
