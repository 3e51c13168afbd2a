import fc from 'fast-check'
import { expect, test } from 'vitest'
import { SieveCache } from './sieve.ts'

type Operation = { kind: 'get' | 'set'; key: string }

/** SIEVE on a plain list, oldest first, with linear search. */
class NaiveSieve {
  list: { key: string; value: number; read: boolean }[] = []
  hand: string | undefined
  readonly capacity: number

  constructor(capacity: number) {
    this.capacity = capacity
  }

  get(key: string): number | undefined {
    const found = this.list.find(entry => entry.key === key)
    if (found) found.read = true
    return found?.value
  }

  set(key: string, value: number): boolean {
    if (this.capacity === 0) return false
    const found = this.list.find(entry => entry.key === key)
    if (found) {
      Object.assign(found, { value, read: true })
      return false
    }
    const isFull = this.list.length === this.capacity
    if (isFull) this.evict()
    this.list.push({ key, value, read: false })
    return isFull
  }

  evict(): void {
    let at = Math.max(
      0,
      this.list.findIndex(entry => entry.key === this.hand),
    )
    for (let entry = this.list[at]; entry?.read; entry = this.list[at]) {
      entry.read = false
      at = (at + 1) % this.list.length
    }
    this.list.splice(at, 1)
    this.hand = this.list[at]?.key
  }
}

test('behaves like a naive SIEVE, and never exceeds its capacity', () => {
  const key = fc.constantFrom(...'abcdefghij')
  const operations = fc.array(fc.record<Operation>({ kind: fc.constantFrom('get', 'set'), key }), { maxLength: 200 })
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 6 }), operations, (capacity, run) => {
      const cache = new SieveCache<number>(capacity)
      const model = new NaiveSieve(capacity)
      for (const [at, { kind, key }] of run.entries()) {
        if (kind === 'get') expect(cache.get(key)).toBe(model.get(key))
        else expect(cache.set(key, at)).toBe(model.set(key, at))
        expect(cache.size).toBe(model.list.length)
        expect(cache.size).toBeLessThanOrEqual(capacity)
      }
      for (const name of 'abcdefghij') expect(cache.get(name)).toBe(model.get(name))
    }),
    { numRuns: 500 },
  )
})

test('entries that are read outlive older entries that are not', () => {
  const cache = new SieveCache<number>(2)
  cache.set('old', 1)
  cache.set('young', 2)
  cache.get('old')
  cache.set('new', 3)
  expect([cache.get('old'), cache.get('young'), cache.get('new')]).toEqual([1, undefined, 3])
})
