/** How much messages matter, by example. */
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

test('a result is known by the call that it answers', () => {
  const result: Message = { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'x', content: 'id int' }] }
  const names = new Map([['x', 'get_schema_info']])
  const without = { preserve_tool_results: false, preserve_schema_info: false }
  expect(classify(result, without, names)).toBe('contextual')
  expect(classify(result, without, new Map())).toBe('routine')
})

test('a text is read in no time, whatever is in it', () => {
  for (const part of ['\n', ', ', '. \n', 'update ', 'create ', 'thanks ', ' ', 'x']) {
    const text = `ok${part.repeat(1_000_000 / part.length)}x`
    for (const message of [user(text), assistant(text)]) {
      const from = performance.now()
      classify(message, preserved, new Map())
      expect([part, performance.now() - from < 1_000]).toEqual([part, true])
    }
  }
})
