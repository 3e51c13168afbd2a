/** Invariants of compaction for any chat, and the effect of each option. */
import fc from 'fast-check'
import { encode } from 'gpt-tokenizer'
import { describe, expect, test } from 'vitest'
import { type Compacted, carryOut, plan } from './compact.ts'
import { toolMentions } from './message.ts'
import { type CompactionRequest, compactionRequest, type Message } from './request.ts'
import { createTokenCounter } from './tokens.ts'

const compactParsed = (request: CompactionRequest) => carryOut(plan(request), request.options.enable_summarization)
const compact = (request: unknown): Compacted => compactParsed(compactionRequest.parse(request))
const isSummary = ({ content }: Message) => typeof content === 'string' && content.startsWith('[Compressed context: ')

const filler = (word: string, count = 400) => Array.from({ length: count }, () => word).join(' ')
const user = (content: string): Message => ({ role: 'user', content })
const assistant = (content: string): Message => ({ role: 'assistant', content })
const call = (id: string, name = 'query_database', input: object = { query: 'select 1' }): Message => ({
  role: 'assistant',
  content: [{ type: 'tool_use', id, name, input }],
})
const result = (id: string, content: string): Message => ({
  role: 'user',
  content: [{ type: 'tool_result', tool_use_id: id, content }],
})
const chatter = (count: number) => Array.from({ length: count }, (_, index) => assistant(filler(`word${index}`, 60)))

const words = fc.constantFrom(
  'ok',
  'thanks',
  'You must never touch orders.',
  'why is it slow?',
  filler('plain', 30),
  filler('root cause', 20),
  'select a from b',
)
/** Chats with inconsistent messages: results before calls, duplicate ids, both formats of calls. */
const message: fc.Arbitrary<Message> = fc.oneof(
  fc.record({ role: fc.constantFrom('user', 'assistant', 'system'), content: words }),
  fc.record({
    role: fc.constantFrom('user', 'assistant'),
    content: fc.array(
      fc.oneof(
        fc.record({ type: fc.constant('text'), text: words }),
        fc.record({
          type: fc.constant('tool_use'),
          id: fc.constantFrom('a', 'b', 'c', 'd'),
          name: fc.constantFrom('query_database', 'get_schema_info'),
          input: fc.constant({}),
        }),
        fc.record({
          type: fc.constant('tool_result'),
          tool_use_id: fc.constantFrom('a', 'b', 'c', 'd'),
          content: words,
        }),
      ),
      { maxLength: 3 },
    ),
  }),
  fc.record({ role: fc.constant('tool'), tool_call_id: fc.constantFrom('e', 'f'), content: words }),
  fc.constant({
    role: 'assistant',
    content: '',
    tool_calls: [{ id: 'e', function: { name: 'count_rows', arguments: '{"table":"t"}' } }],
  }),
)
const request = fc.record({
  messages: fc.array(message, { maxLength: 40 }),
  max_tokens: fc.integer({ min: 1, max: 1_500 }),
  recent_window: fc.integer({ min: 0, max: 12 }),
  keep_anchors: fc.boolean(),
  options: fc.record({
    preserve_tool_results: fc.boolean(),
    preserve_schema_info: fc.boolean(),
    enable_summarization: fc.boolean(),
    min_important_messages: fc.integer({ min: 0, max: 5 }),
    token_counter_type: fc.constantFrom('generic', 'openai', 'anthropic', 'ollama'),
  }),
})

describe('for any chat', () => {
  const property = (check: (input: CompactionRequest, answered: Compacted) => void) =>
    fc.assert(
      fc.property(request, one => {
        const input = compactionRequest.parse(one)
        check(input, compactParsed(input))
      }),
      { numRuns: 400 },
    )

  test('the outcome is not longer, in messages or in tokens, and its figures are correct', () => {
    property(({ messages, options }, { messages: remaining, token_estimate, compaction_info }) => {
      const count = createTokenCounter(options.token_counter_type)
      const sum = (all: readonly Message[]) => all.reduce((total, one) => total + count(one), 0)
      expect(remaining.length).toBeLessThanOrEqual(messages.length)
      expect(token_estimate).toBe(sum(remaining))
      expect(token_estimate).toBeLessThanOrEqual(sum(messages))
      expect(compaction_info).toMatchObject({
        original_count: messages.length,
        compacted_count: remaining.length,
        dropped_count: messages.length - remaining.filter(one => !isSummary(one)).length,
        tokens_saved: sum(messages) - token_estimate,
      })
      expect(compaction_info.compression_ratio).toBeLessThanOrEqual(1)
    })
  })

  test('remaining messages are unchanged and in order; the first message and the recent messages remain', () => {
    property(({ messages, recent_window }, { messages: remaining }) => {
      const own = remaining.filter(one => !isSummary(one))
      let from = 0
      for (const one of own) {
        const at = messages.indexOf(one, from)
        expect(at).toBeGreaterThanOrEqual(from)
        from = at + 1
      }
      expect(own[0]).toBe(messages[0])
      if (recent_window > 0) expect(own.slice(-recent_window)).toEqual(messages.slice(-recent_window))
    })
  })

  test('calls and results stay together, and no summary separates a call from its result', () => {
    property(({ messages }, { messages: remaining }) => {
      const ids = (all: readonly Message[]) =>
        all.flatMap(one => toolMentions(one).map(({ id, kind }) => `${kind} ${id}`))
      const stays = new Set(ids(remaining).map(one => one.split(' ')[1]))
      expect(ids(remaining)).toEqual(ids(messages).filter(one => stays.has(one.split(' ')[1])))
      const at = remaining.findIndex(isSummary)
      const shared = new Set(
        remaining
          .slice(0, Math.max(0, at))
          .flatMap(toolMentions)
          .map(({ id }) => id),
      )
      if (at >= 0)
        expect(
          remaining
            .slice(at)
            .flatMap(toolMentions)
            .filter(({ id }) => shared.has(id)),
        ).toEqual([])
    })
  })

  test('the outcome fits if the required messages fit', () => {
    property((input, { token_estimate }) => {
      // With a limit of 1, only the required messages remain.
      const least = compact({ ...input, max_tokens: 1 }).token_estimate
      expect(token_estimate).toBeLessThanOrEqual(Math.max(least, input.max_tokens))
    })
  })

  test('a chat that fits is unchanged, and so is a compacted chat that fits', () => {
    property((input, answered) => {
      expect(compact({ ...input, max_tokens: 1_000_000 }).messages).toEqual(input.messages)
      if (answered.token_estimate > input.max_tokens) return
      expect(compact({ ...input, messages: answered.messages }).messages).toEqual(answered.messages)
    })
  })
})

describe('important messages remain', () => {
  const rule = user('From now on never touch the table orders.')
  const schema = [call('s', 'get_schema_info', { schema_name: 'shop' }), result('s', filler('column', 60))]
  const query = [call('q'), result('q', filler('row', 60))]
  const finding = assistant('The root cause is a missing index on orders.customer_id.')
  const thanks = user('Thanks!')
  const chat = (...middle: Message[]) => [user('Why is the shop slow?'), ...middle, ...chatter(40)]
  const compacted = (middle: Message[], more: object = {}, options: object = {}) =>
    compact({
      messages: chat(...middle),
      max_tokens: 1_500,
      recent_window: 5,
      ...more,
      options: { min_important_messages: 0, ...options },
    })

  test('rules of the user are anchors, and remain at any limit', () => {
    const all = compacted([rule], { max_tokens: 10 })
    expect(all.messages).toContainEqual(rule)
    expect(all.compaction_info.anchor_count).toBe(1)
    expect(compacted([rule], { max_tokens: 10, keep_anchors: false }).messages).not.toContainEqual(rule)
  })

  test('removes pleasantries even if they fit', () => {
    expect(compacted([thanks], { max_tokens: 3_000 }).messages).not.toContainEqual(thanks)
  })

  test('prefers findings to chatter', () => {
    const { messages } = compacted([finding])
    expect(messages).toContainEqual(finding)
    expect(messages.length).toBeLessThan(chat(finding).length)
  })

  test('preserve_tool_results decides whether results are preferred to chatter', () => {
    expect(compacted(query).messages).toEqual(expect.arrayContaining(query))
    expect(compacted(query, {}, { preserve_tool_results: false }).messages).not.toEqual(expect.arrayContaining(query))
  })

  test('preserve_schema_info decides whether schema information is preferred to questions', () => {
    const questions = Array.from({ length: 12 }, (_, index) => user(`${filler('which column', 60)} ${index}?`))
    expect(compacted([...schema, ...questions]).messages).toEqual(expect.arrayContaining(schema))
    const without = compacted([...schema, ...questions], {}, { preserve_schema_info: false })
    expect(without.messages).not.toEqual(expect.arrayContaining(schema))
  })

  test('min_important_messages: this many important messages remain even if they exceed the limit', () => {
    const findings = [1, 2, 3, 4].map(index => assistant(`The root cause ${index} is ${filler('long', 50)}.`))
    const important = (count: number) =>
      compacted(findings, { max_tokens: 10 }, { min_important_messages: count }).messages.filter(one =>
        String(one.content).startsWith('The root cause'),
      )
    expect(important(0)).toEqual([])
    expect(important(2)).toEqual(findings.slice(2))
    expect(important(9)).toEqual(findings)
  })

  test('recent_window: this many of the last messages remain even if they exceed the limit', () => {
    expect(compacted([], { max_tokens: 10, recent_window: 7 }).messages).toHaveLength(8)
    expect(compacted([], { max_tokens: 10, recent_window: 0 }).messages).toHaveLength(1)
  })

  test('max_tokens and recent_window have the documented defaults', () => {
    expect(compactionRequest.parse({ messages: [] })).toMatchObject({
      max_tokens: 100_000,
      recent_window: 10,
      keep_anchors: true,
    })
  })

  test('enable_summarization: a summary of removed messages follows the first message', () => {
    const middle = [
      call('q', 'query_database', { query: 'select * from shop.orders join "Customers" c on true' }),
      result('q', filler('row', 600)),
      user(`invoices and invoices ${filler('please')}`),
    ]
    const { messages, summary, compaction_info } = compacted(middle)
    expect(compaction_info.dropped_count).toBeGreaterThan(2)
    expect(summary.tables).toEqual(['shop.orders', '"Customers"'])
    expect(summary.tools).toEqual(['query_database'])
    expect(summary.topics).toContain('invoices')
    expect(messages[1]?.content).toBe(
      `[Compressed context: ${summary.description} Tables: shop.orders, "Customers". Tools used: query_database.]`,
    )
    const without = compacted(middle, {}, { enable_summarization: false })
    expect(without.messages.some(isSummary)).toBe(false)
    expect(without.summary).toEqual({ topics: [], tables: [], tools: [], description: '' })
  })

  test("a chat in OpenAI's format keeps its call and result pairs too", () => {
    const input = {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'x', type: 'function', function: { name: 'count_rows', arguments: '{}' } }],
    }
    expect(compactionRequest.safeParse({ messages: [input] }).error?.issues[0]?.message).toBe(
      'must be a text or a list of blocks',
    )
    const pair = [
      { ...input, content: '' },
      { role: 'tool', tool_call_id: 'x', content: filler('row', 100) },
    ]
    expect(compacted(pair).messages).toEqual(expect.arrayContaining(pair))
  })
})

describe('token_counter_type', () => {
  const text = 'The quick brown fox jumps over the lazy dog near the river bank. '.repeat(20)
  test('decides how tokens are counted', () => {
    const counted = (['generic', 'openai', 'anthropic', 'ollama'] as const).map(type =>
      createTokenCounter(type)(user(text)),
    )
    expect(counted).toEqual([314, 308, 324, 276])
  })

  test.each([
    ['prose', text, 0.9, 1.2],
    [
      'SQL',
      'select o.id, c.name, sum(o.total) from orders o join customers c on c.id = o.customer_id group by 1, 2; '.repeat(
        10,
      ),
      0.9,
      1.2,
    ],
    [
      'JSON',
      JSON.stringify(
        Array.from({ length: 40 }, (_, index) => ({ id: index, name: `customer ${index}`, active: true })),
      ),
      0.9,
      1.2,
    ],
    ['Chinese', '数据库查询很慢,因为缺少索引。'.repeat(20), 0.7, 2],
  ])('is close to a tokenizer in %s', (_, sample, low, high) => {
    const ratio = createTokenCounter('openai')(user(sample)) / encode(sample).length
    expect(ratio).toBeGreaterThan(low)
    expect(ratio).toBeLessThan(high)
  })
})

test('compacts a chat of the maximum body size quickly, for any content', () => {
  const hostile = [
    'select from '.repeat(400),
    '{"a":'.repeat(900),
    'function def class '.repeat(250),
    '} '.repeat(2_000),
    'update '.repeat(600),
    'from '.repeat(900),
  ]
  const messages = Array.from({ length: 2_000 }, (_, index) => user(hostile[index % hostile.length] ?? ''))
  // Measures the CPU time of this thread only. Wall time depends on the machine's load.
  const before = process.threadCpuUsage()
  compact({ messages, max_tokens: 50_000 })
  const { user: userMicroseconds, system } = process.threadCpuUsage(before)
  expect((userMicroseconds + system) / 1_000).toBeLessThan(3_000)
})
