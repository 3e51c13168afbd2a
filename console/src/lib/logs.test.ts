import { expect, test } from 'vitest'
import { detailsOf, type LogEntry, matching, withRead } from './logs.ts'

const at = (second: number, message: string, level = 'LOG'): LogEntry => ({
  ...{ timestamp: new Date(Date.UTC(2026, 0, 1) + second * 1000).toISOString(), level, message },
})
const messages = (lines: readonly { entry: LogEntry }[]) => lines.map(({ entry }) => entry.message)

test('adds only the new entries of an overlapping read, and keeps equal entries that have the same timestamp', () => {
  const first = withRead([], [at(2, 'b'), at(2, 'b'), at(1, 'a')])
  expect(messages(first)).toEqual(['a', 'b', 'b'])
  const second = withRead(first, [at(3, 'c'), at(2, 'b'), at(2, 'b'), at(2, 'b')])
  expect(messages(second)).toEqual(['a', 'b', 'b', 'b', 'c'])
  expect(second.map(({ key }) => key)).toEqual([0, 1, 2, 3, 4])
})

test('returns the same list for a read without new entries, so that the page does not redraw', () => {
  const lines = withRead([], [at(2, 'b'), at(1, 'a')])
  expect(withRead(lines, [at(2, 'b')])).toBe(lines)
})

test('removes the oldest lines, and does not reuse their keys', () => {
  const lines = withRead(withRead([], [at(2, 'b'), at(1, 'a')], 2), [at(3, 'c')], 2)
  expect(messages(lines)).toEqual(['b', 'c'])
  expect(lines.map(({ key }) => key)).toEqual([1, 2])
})

test('filters lines by search words and severity', () => {
  const lines = withRead([], [{ ...at(3, 'no table', 'ERROR'), user: 'Ada' }, at(2, 'slow', 'WARNING'), at(1, 'start')])
  expect(messages(matching(lines, '', 'all'))).toEqual(['start', 'slow', 'no table'])
  expect(messages(matching(lines, '', 'warning'))).toEqual(['slow', 'no table'])
  expect(messages(matching(lines, '', 'error'))).toEqual(['no table'])
  expect(messages(matching(lines, 'TABLE ada', 'all'))).toEqual(['no table'])
  expect(messages(matching(lines, 'table', 'warning'))).toEqual(['no table'])
  expect(matching(lines, 'absent', 'all')).toEqual([])
})

test('returns details in a fixed order, and omits empty ones', () => {
  const entry = { ...at(1, 'm'), statement: 'SELECT', detail: 'd', hint: '' }
  expect(detailsOf(entry)).toEqual([
    ['detail', 'd'],
    ['statement', 'SELECT'],
  ])
})
