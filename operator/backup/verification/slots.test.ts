/** Which waiting backup is verified next. */
import { expect, test } from 'vitest'
import { nextOf } from './slots.ts'

/** `a3`: the third of the namespace `a`. */
const waiting = (...keys: string[]) =>
  keys.map((key, index) => ({ key, namespace: key.slice(0, 1), order: String(index).padStart(6, '0') }))
const none = new Map<string, number>()

test.each<[string, string[], underWay: string[], endedAt: Map<string, number>, expected: string[]]>([
  ['the first in the queue', ['a1', 'a2', 'a3'], [], none, ['a1', 'a2']],
  ['none if no slot is free', ['a1'], ['b', 'c'], none, []],
  ['one of each namespace', ['a1', 'a2', 'b1'], [], none, ['a1', 'b1']],
  ['of a namespace that has none running', ['a1', 'a2', 'b1'], ['a'], none, ['b1']],
  ['of a namespace that has one running, if no other waits', ['a1', 'a2'], ['a'], none, ['a1']],
  [
    'of the namespace whose last verification ended the longest ago',
    ['a1', 'b1', 'c1'],
    ['a'],
    new Map([
      ['b', 2],
      ['c', 1],
    ]),
    ['c1'],
  ],
  [
    'of a namespace without any verification, before that',
    ['a1', 'b1', 'c1'],
    [],
    new Map([
      ['a', 1],
      ['b', 2],
    ]),
    ['c1', 'a1'],
  ],
])('the next is %s', (_, keys, underWay, endedAt, expected) => {
  expect(nextOf({ waiting: waiting(...keys), underWay, endedAt }, 2)).toEqual(expected)
})

test('no namespace starves: three that always have requests get equal shares', () => {
  const endedAt = new Map<string, number>()
  const all = waiting(...['a', 'b', 'c'].flatMap(name => Array.from({ length: 100 }, (_, index) => `${name}${index}`)))
  let queue = all
  let running: string[] = []
  const begun: string[] = []
  for (let time = 1; time <= 60; time++) {
    const chosen = nextOf({ waiting: queue, underWay: running.map(key => key.slice(0, 1)), endedAt }, 2)
    begun.push(...chosen)
    queue = queue.filter(({ key }) => !chosen.includes(key))
    running.push(...chosen)
    const [ends, ...others] = running
    endedAt.set(ends?.slice(0, 1) ?? '', time)
    running = others
  }
  for (const name of ['a', 'b', 'c']) expect(begun.filter(key => key.startsWith(name)).length).toBeGreaterThan(18)
})
