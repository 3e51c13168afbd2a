import { expect, test } from 'vitest'
import { merged } from './merge.ts'

const entry = (second: number, message = `entry ${second}`) => ({
  ...{ timestamp: new Date(Date.UTC(2026, 0, 1) + second * 1000).toISOString(), level: 'LOG', message },
})
const entries = (...seconds: number[]) => seconds.map(second => entry(second))

test('the log on the volume and the printed log are merged, newest first', () => {
  const volumeLog = { entries: entries(9, 8, 3, 2), isWhole: true }
  expect(merged(volumeLog, entries(7, 1), 100)).toEqual(entries(9, 8, 7, 3, 2, 1))
  expect(merged(volumeLog, entries(7, 1), 3)).toEqual(entries(9, 8, 7))
  expect(merged(volumeLog, [], 100)).toEqual(entries(9, 8, 3, 2))
  expect(merged({ entries: [], isWhole: true }, entries(7, 1), 100)).toEqual(entries(7, 1))
})

test('entries with the same time keep their order', () => {
  const volumeLog = { entries: [entry(1, 'c'), entry(1, 'b')], isWhole: true }
  expect(merged(volumeLog, [entry(1, 'a')], 100).map(({ message }) => message)).toEqual(['c', 'b', 'a'])
})

test('nothing beyond a gap is returned', () => {
  const volumeLog = { entries: entries(9, 8), isWhole: false }
  expect(merged(volumeLog, entries(10, 7), 100)).toEqual(entries(10, 9, 8))
})
