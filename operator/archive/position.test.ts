import { expect, test } from 'vitest'
import { archivingStatus } from '../testing/fake-archive.ts'
import { positionAfter } from './position.ts'

const answer = (archived: string | null, seconds: number, timeline = 1) => ({
  ...archivingStatus,
  ...{ archived, archivedAt: seconds * 1000, timeline },
})
const before = { incarnation: 1, archived: '0/1', archivedAt: '1970-01-01T00:00:00Z', timeline: 1 }
const next = { ...before, archived: '0/2' }

test.each([
  ['the first position is reported at once', undefined, answer('0/1', 0), before],
  ['nothing is reported before all written WAL has arrived', undefined, answer(null, 0), undefined],
  ['the reported position stays while the current position is unknown', before, answer(null, 999), before],
  [
    'another position is reported after a minute',
    before,
    answer('0/2', 60),
    { ...next, archivedAt: '1970-01-01T00:01:00Z' },
  ],
  ['another position is not reported within a minute', before, answer('0/2', 59), before],
  [
    'the same position is reported again after ten minutes',
    before,
    answer('0/1', 600),
    { ...before, archivedAt: '1970-01-01T00:10:00Z' },
  ],
  ['the same position is not reported again within ten minutes', before, answer('0/1', 599), before],
  [
    'another timeline is reported at once',
    before,
    answer('0/1', 1, 2),
    { ...before, timeline: 2, archivedAt: '1970-01-01T00:00:01Z' },
  ],
])('%s', (_, known, status, expected) => {
  expect(positionAfter(known, 1, status)).toEqual(expected)
})

test('after the clock was set back, the position is reported at once', () => {
  const ahead = { ...before, archivedAt: '1970-01-01T01:00:00Z' }
  expect(positionAfter(ahead, 1, answer('0/2', 60))).toMatchObject({
    archived: '0/2',
    archivedAt: '1970-01-01T00:01:00Z',
  })
})

test('another incarnation is reported at once', () => {
  expect(positionAfter(before, 2, answer('0/1', 1))?.incarnation).toBe(2)
})
