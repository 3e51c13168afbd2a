import { expect, test } from 'vitest'
import { parseQuery } from './body.ts'

const query = (value: string, operator = '"="') =>
  parseQuery(
    JSON.parse(
      `{"query": "q", "filter": {"conditions": [{"column": "a", "operator": ${operator}, "value": ${value}}]}}`,
    ),
  )

test.each(['9007199254740993', '-9007199254740993', '1e300', '1e400', '-1e400', '[]', '{}', 'null'])(
  'refuses %s as a value: another value would be searched for',
  value => {
    expect(() => query(value)).toThrow('filter.conditions[0].value must be a text')
    expect(() => query(`[1, ${value}]`, '"IN"')).toThrow('filter.conditions[0].value[1] must be a text')
  },
)

test.each(['9007199254740991', '-9007199254740991', '0', '-0', '1.5', '1e-7', '"9007199254740993"', 'true'])(
  'accepts %s as a value',
  value => {
    expect(() => query(value)).not.toThrow()
  },
)

test.each(['__proto__', 'constructor', 'prototype', 'Filter', 'filters'])('refuses the key %s', key => {
  const body = `{"query": "q", "${key}": {"conditions": []}}`
  expect(() => parseQuery(JSON.parse(body))).toThrow(key)
  expect(() => parseQuery(JSON.parse(`{"query": "q", "filter": ${body.replace('"query": "q", ', '')}}`))).toThrow()
})
