// @ts-nocheck
import { expect, test } from 'vitest'
import { typeName } from './statement.ts'

test.each([' ', ' []', '[]', '[ ]'])('the name of a type is read in one go, however many %j it holds', repeated => {
  const middle = repeated.repeat(500_000)
  expect(typeName(`x${middle}y`)).toMatch(/^"x.*y"$/)
  expect(typeName(`x${middle}y []`)).toMatch(/^"x.*y"\[\]$/)
})
