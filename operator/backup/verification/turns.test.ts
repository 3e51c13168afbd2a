/** Who is checked next where many wait. */
import { expect, test } from 'vitest'
import { nextOf } from './turns.ts'

/** `a3`: the third of the namespace `a`. */
const waiting = (...keys: string[]) =>
  keys.map((key, index) => ({ key, namespace: key.slice(0, 1), place: String(index).padStart(6, '0') }))
const none = new Map<string, number>()

test.each<[string, string[], underWay: string[], endedAt: Map<string, number>, expected: string[]]>([
  ['who asked first', ['a1', 'a2', 'a3'], [], none, ['a1', 'a2']],
  ['nobody where no place is free', ['a1'], ['b', 'c'], none, []],
  ['one for every namespace', ['a1', 'a2', 'b1'], [], none, ['a1', 'b1']],
  ['who has nothing under way', ['a1', 'a2', 'b1'], ['a'], none, ['b1']],
  ['who has something under way where nobody else waits', ['a1', 'a2'], ['a'], none, ['a1']],
  [
    'whose last check ended longest ago',
    ['a1', 'b1', 'c1'],
    ['a'],
    new Map([
      ['b', 2],
      ['c', 1],
    ]),
    ['c1'],
  ],
  [
    'who never had one before that',
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

test('nobody starves: of three that ask for ever, each has its share', () => {
  const endedAt = new Map<string, number>()
  const all = waiting(...['a', 'b', 'c'].flatMap(name => Array.from({ length: 100 }, (_, index) => `${name}${index}`)))
  let left = all
  let running: string[] = []
  const begun: string[] = []
  for (let time = 1; time <= 60; time++) {
    const chosen = nextOf({ waiting: left, underWay: running.map(key => key.slice(0, 1)), endedAt }, 2)
    begun.push(...chosen)
    left = left.filter(({ key }) => !chosen.includes(key))
    running.push(...chosen)
    const [ends, ...others] = running
    endedAt.set(ends?.slice(0, 1) ?? '', time)
    running = others
  }
  for (const name of ['a', 'b', 'c']) expect(begun.filter(key => key.startsWith(name)).length).toBeGreaterThan(18)
})
