/** Limits how many connections an account takes, so that other accounts still get connections. */
import { expect, test } from 'vitest'
import { createSlots } from './limits.ts'

/** Takes connections until a connection is refused. Returns the functions that release the connections. */
function takeAll({ take }: ReturnType<typeof createSlots>, account: string): (() => void)[] {
  const released: (() => void)[] = []
  for (;;)
    try {
      released.push(take(account, `${account} ${released.length}`, 4))
    } catch (error) {
      expect(error).toMatchObject({ status: 429 })
      return released
    }
}

test('an account gets at most half, rounded up, of the connections that other accounts do not use', () => {
  const slots = createSlots('SQL requests')
  expect(['a', 'b', 'c', 'd', 'e'].map(account => takeAll(slots, account).length)).toEqual([4, 2, 1, 1, 0])
  expect(slots.taken).toBe(8)
})

test('an account that released its connections can take as many again', () => {
  const slots = createSlots('SQL requests')
  for (const release of takeAll(slots, 'a')) {
    release()
    release()
  }
  expect(slots.taken).toBe(0)
  expect(takeAll(slots, 'a')).toHaveLength(4)
})
