import { expect, test } from 'vitest'
import { refusal } from '../testing/parsing.ts'
import { StatementWriter, typeName } from './statement.ts'

test.each([' ', ' []', '[]', '[ ]'])('a type name is read in linear time, even with many %j', repeated => {
  const middle = repeated.repeat(500_000)
  expect(typeName(`x${middle}y`)).toMatch(/^"x.*y"$/)
  expect(typeName(`x${middle}y []`)).toMatch(/^"x.*y"\[\]$/)
})

test.each([
  ['int', 'int'],
  [' INT ', 'int'],
  ['double  precision', 'double precision'],
  [' int [] ', 'int[]'],
  ['int[][]', 'int[]'],
  ['x ', '"x"'],
  ['X', '"x"'],
])('the type %j is written as %s', (name, expected) => {
  expect(typeName(name)).toBe(expected)
})

test('a statement has at most 30,000 values', () => {
  const writer = new StatementWriter()
  for (let count = 1; count <= 30_000; count++) writer.value('x')
  expect(writer.values).toHaveLength(30_000)
  expect(refusal(() => writer.value('x')).status).toBe(400)
})
