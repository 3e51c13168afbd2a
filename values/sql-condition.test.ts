import { expect, test } from 'vitest'
import { sqlConditionError } from './sql-condition.ts'

test.each([
  'a = 1',
  "tenant = 'x' OR tenant IS NULL -- and a comment",
  'id IN (SELECT id FROM allowed) AND NOT deleted',
  "text LIKE '%(%' /* closed */",
  `name = '{"ParamRef":'`,
])('%s is one condition', async text => {
  expect(await sqlConditionError(text)).toBeUndefined()
})

test('another event is processed between two conditions', async () => {
  await sqlConditionError('a = 1')
  const order: string[] = []
  setImmediate(() => order.push('another event'))
  await sqlConditionError('a = 2').then(() => order.push('condition'))
  expect(order).toEqual(['another event', 'condition'])
})

test.each([
  'a) OR (true',
  '',
  'a = 1;',
  'a = 1; DROP TABLE t',
  'a = 1 LIMIT 1',
  'a = 1 ORDER BY b',
  'a = 1 GROUP BY a',
  'a = 1 UNION SELECT 2',
  'a = 1 FOR UPDATE',
  'a = $1',
  'a = 1 /*',
  "a = 'x",
  'a = 1\0',
  '1 FROM t WHERE true',
])('%j is refused', async text => {
  expect(await sqlConditionError(text)).toMatch(/^(is not one SQL condition|must|has a character)/)
})
