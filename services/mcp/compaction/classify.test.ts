/** Examples of message classes. */
import { expect, test } from 'vitest'
import { classify } from './classify.ts'
import type { Message } from './request.ts'

const preserved = { preserve_tool_results: true, preserve_schema_info: true }
const user = (content: string): Message => ({ role: 'user', content })
const assistant = (content: string): Message => ({ role: 'assistant', content })

test.each([
  ['anchor', { role: 'system', content: 'You are a helpful assistant.' }],
  ['anchor', user('Never touch the table orders.')],
  ['anchor', user('That is good. From now on use the schema shop.')],
  ['anchor', user('Use EXPLAIN, and don’t run it.')],
  ['anchor', user('The report must not show names.')],
  ['anchor', user('please always limit to 10 rows')],
  ['important', assistant('It turns out that the index is invalid.')],
  ['important', assistant('CREATE TABLE notes (id int)')],
  ['important', { role: 'tool', tool_call_id: 'x', content: '42' }],
  ['contextual', user('Why is it so slow?')],
  ['contextual', user('Which constraint stops this DELETE, and which foreign key?')],
  ['contextual', user('I never saw this error before')],
  ['routine', user('I don’t like mornings')],
  ['routine', assistant('Here you are.')],
  ['routine', user('yes')],
  ['transient', user('Thanks!')],
  ['transient', assistant('')],
] as const)('%s: %j', (expected, message) => {
  expect(classify(message, preserved, new Map())).toBe(expected)
})

test('the class of a result depends on its call', () => {
  const result: Message = { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'x', content: 'id int' }] }
  const names = new Map([['x', 'get_schema_info']])
  const without = { preserve_tool_results: false, preserve_schema_info: false }
  expect(classify(result, without, names)).toBe('contextual')
  expect(classify(result, without, new Map())).toBe('routine')
})

/** The shortest of three runs, in ms. Load on the machine can only make a run slower. */
function quickestMs(message: Parameters<typeof classify>[0]): number {
  const times = [1, 2, 3].map(() => {
    const from = performance.now()
    classify(message, preserved, new Map())
    return performance.now() - from
  })
  return Math.min(...times)
}

test('classification time is linear in the length of any text', () => {
  const textOf = (part: string, length: number) => `ok${part.repeat(length / part.length)}x`
  for (const part of ['\n', ', ', '. \n', 'update ', 'create ', 'thanks ', ' ', 'x']) {
    for (const write of [user, assistant]) {
      const [short, long] = [100_000, 1_000_000].map(length => quickestMs(write(textOf(part, length))))
      // Quadratic time would be a hundred times as long. Times below 5 ms are too short to compare.
      expect([part, (long ?? 0) < 40 * Math.max(short ?? 0, 5)]).toEqual([part, true])
    }
  }
})
