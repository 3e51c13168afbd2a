import { expect, test } from 'vitest'
import { accessTo, type Reading } from './access.ts'

const million: Reading = { isStored: true, rows: 1_000_000, averageLength: 40, isFiltered: true, matching: undefined }
const access = (changed: Partial<Reading>) => {
  const { by, budget } = accessTo({ ...million, ...changed })
  return [by, budget.rows]
}

test("the fewer rows a condition accepts, the more rows are found by words, until only the condition's index is used", () => {
  expect(access({ isFiltered: false })).toEqual(['planner', 600])
  expect(access({ matching: 500_000 })).toEqual(['words', 1_200])
  expect(access({ matching: 50_000 })).toEqual(['words', 6_000])
  expect(access({ matching: 5_000 })).toEqual(['planner', 120_000])
  expect(access({ matching: 500 })).toEqual(['condition', 1_200_000])
  expect(access({ matching: 0 })[0]).toBe('condition')
  expect(access({})).toEqual(['planner', 2_400])
})

test('scores fewer rows if reading a row costs more', () => {
  expect(access({ isFiltered: false, averageLength: 150 })).toEqual(['planner', 300])
  expect(access({ isFiltered: false, averageLength: 150, rows: 10_000 })).toEqual(['planner', 600])
  expect(access({ isFiltered: false, isStored: false })).toEqual(['planner', 400])
  expect(access({ matching: 500, isStored: false })[0]).toBe('planner')
})
