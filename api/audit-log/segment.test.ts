import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ConfigMap } from '../../cluster/index.ts'
import { createIds } from '../../values/id.ts'
import { pageOfLines } from './read.ts'
import {
  append,
  entryOf,
  expiredSegments,
  type Line,
  lineOf,
  linesOf,
  mostSegments,
  retentionMs,
  type StoredEntry,
  segmentName,
  UnreadableSegment,
} from './segment.ts'

const start = Date.parse('2026-01-31T12:00:00Z')
const newId = createIds(() => start)

const entry = (changes: Partial<StoredEntry> = {}): StoredEntry => ({
  id: newId(),
  time: '2026-01-31T12:00:00.000Z',
  request_id: crypto.randomUUID(),
  member: 'ada',
  address: '203.0.113.7',
  method: 'POST',
  path: '/managed/v1/databases',
  status: 200,
  outcome: 'accepted',
  ...changes,
})
const segment = (data: Record<string, string>, name = segmentName(1)): ConfigMap => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name },
  data,
})
const texts = (lines: readonly Line[]) => lines.map(({ text }) => text)

describe('a segment', () => {
  test('returns the lines that were appended, in order, and never exceeds 16 KiB', async () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 300 })
    const anEntry = fc.record({ path: text, member: text, request_id: text }).map(entry)
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(anEntry, { minLength: 1, maxLength: 40 }), { maxLength: 8 }),
        async batches => {
          let lines: Line[] = []
          for (const batch of batches.map(entries => entries.map(lineOf))) {
            const packed = await append(lines, batch)
            if (packed === undefined) {
              expect(lines.length).toBeGreaterThan(0)
              continue
            }
            expect(JSON.stringify(packed.data).length).toBeLessThan(17 * 1024)
            const stored = await linesOf(segment(packed.data))
            expect(texts(stored)).toEqual(texts([...lines, ...batch.slice(0, packed.added)]))
            lines = stored
          }
        },
      ),
      { numRuns: 40 },
    )
  })

  test('is full at some time, also for lines that compress well', async () => {
    for (const make of [() => entry(), () => entry({ id: entry().id, request_id: 'x', path: 'p'.repeat(300) })]) {
      let lines: Line[] = []
      let isFull = false
      for (let batch = 0; !isFull && batch < 100; batch++) {
        const packed = await append(
          lines,
          Array.from({ length: 20 }, () => lineOf(make())),
        )
        isFull = packed === undefined
        if (packed !== undefined) lines = await linesOf(segment(packed.data))
      }
      expect(isFull).toBe(true)
      expect(lines.length).toBeGreaterThan(80)
    }
  })

  test('is unreadable if its content is cut, changed, missing, or expands beyond the limit', async () => {
    const packed = await append([], [lineOf(entry())])
    const [[key, content] = ['', '']] = Object.entries(packed?.data ?? {})
    const { gzipSync } = await import('node:zlib')
    const bomb = gzipSync(Buffer.alloc(50_000_000, 'a')).toString('base64')
    const text = gzipSync('{"time": "no id"}\n').toString('base64')
    for (const data of [{}, ...[content.slice(0, 40), 'AAAA', '', bomb, text].map(wrong => ({ [key]: wrong }))])
      await expect(linesOf(segment(data as Record<string, string>))).rejects.toThrow(UnreadableSegment)
  })

  test('keeps fields of a later version when an earlier one appends', async () => {
    const later = { id: newId(), text: '' }
    later.text = JSON.stringify({ ...entry({ id: later.id }), since_later: true })
    const packed = await append([later], [lineOf(entry())])
    const lines = await linesOf(segment(packed?.data ?? {}))
    expect(lines[0]?.text).toBe(later.text)
    expect(lines.map(entryOf)[0]).not.toHaveProperty('since_later')
  })
})

describe('retention', () => {
  const numbered = (number: number, created: number) => ({
    ...segment({}, segmentName(number)),
    metadata: { name: segmentName(number), creationTimestamp: new Date(created).toISOString() },
  })

  test('expires the oldest segments beyond the limit, and nothing that is not a segment', () => {
    const segments = Array.from({ length: mostSegments + 3 }, (_, index) => numbered(index + 1, start))
    const others = [segment({}, 'idempotency-1'), segment({}, 'audit-x')]
    const expired = expiredSegments([...others, ...segments.toReversed()], start)
    expect(expired.map(({ metadata }) => metadata.name).sort()).toEqual([1, 2, 3].map(segmentName))
  })

  test('expires a segment whose last entry is older than 30 days, which its successor shows', () => {
    const segments = [
      numbered(1, start - 3 * retentionMs),
      numbered(2, start - retentionMs - 1),
      numbered(3, start - retentionMs + 1),
    ]
    expect(expiredSegments(segments, start).map(({ metadata }) => metadata.name)).toEqual([segmentName(1)])
    expect(expiredSegments([numbered(1, start - 9 * retentionMs)], start)).toEqual([])
  })
})

test('pages have each entry once, newest first, whatever the order of the lines, and while others arrive', () => {
  const ids = createIds(() => start)
  const scenario = fc.record({
    count: fc.integer({ min: 0, max: 60 }),
    limit: fc.integer({ min: 1, max: 10 }),
    shuffled: fc.infiniteStream(fc.nat()),
  })
  fc.assert(
    fc.property(scenario, ({ count, limit, shuffled }) => {
      const entries = Array.from({ length: count }, () => entry({ id: ids() }))
      const order = (line: Line) => ({ line, at: shuffled.next().value ?? 0 })
      // Each line twice: a write whose response was lost is repeated.
      let lines = [...entries, ...entries]
        .map(lineOf)
        .map(order)
        .toSorted((left, right) => left.at - right.at)
        .map(({ line }) => line)
      const seen: string[] = []
      for (let cursor: string | undefined, hasMore = true; hasMore; ) {
        const page = pageOfLines(lines, { limit, cursor, isMeant: () => true }, 0)
        seen.push(...page.entries.map(({ id }) => id))
        cursor = page.entries.at(-1)?.id
        hasMore = page.hasMore
        lines = [lineOf(entry({ id: ids() })), ...lines]
      }
      expect(seen).toEqual(entries.map(({ id }) => id).toReversed())
    }),
    { numRuns: 100 },
  )
})
