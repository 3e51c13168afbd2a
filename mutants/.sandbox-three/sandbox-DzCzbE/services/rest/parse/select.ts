/** The grammar of `select`: fields, embedded relations and spreads, nested. */
// @ts-nocheck

import { cast, commaSeparated, fieldName, jsonPath, maximumDepth, name } from './field.ts'
import type { Scanner } from './scanner.ts'
import { aggregateNames, type SelectField, type SelectItem, type SelectRelation } from './types.ts'

function items(scanner: Scanner, depth: number): SelectItem[] {
  if (depth > maximumDepth) scanner.fail(`at most ${maximumDepth} nested relations`)
  return scanner.sees(')') || scanner.done ? [] : commaSeparated(scanner, one => item(one, depth))
}

function item(scanner: Scanner, depth: number): SelectItem {
  if (scanner.skips('*')) return plainField({ name: '*', path: [] })
  const spread = scanner.skips('...')
  const start = scanner.at
  if (!spread && scanner.skips('count()')) {
    return { ...plainField({ name: '*', path: [] }), aggregate: { name: 'count', cast: cast(scanner) } }
  }
  let alias: string | undefined
  let found = name(scanner)
  if (scanner.sees(':') && !scanner.sees('::')) {
    scanner.skips(':')
    alias = found
    if (scanner.skips('count()')) {
      const aggregate = { name: 'count' as const, cast: cast(scanner) }
      return { ...plainField({ name: '*', path: [] }), alias, aggregate }
    }
    found = name(scanner)
  }
  if (spread || scanner.sees('(') || scanner.sees('!')) return relation(scanner, found, alias, spread, depth)
  if (scanner.at === start) scanner.fail(fieldName)
  return fieldItem(scanner, found, alias)
}

const plainField = (field: SelectField['field']): SelectField => ({
  kind: 'field',
  field,
  alias: undefined,
  cast: undefined,
  aggregate: undefined,
})

function fieldItem(scanner: Scanner, found: string, alias: string | undefined): SelectField {
  const path = jsonPath(scanner)
  const type = cast(scanner)
  let aggregate: SelectField['aggregate']
  if (scanner.skips('.')) {
    const aggregateName = aggregateNames.find(known => scanner.skips(`${known}()`))
    if (aggregateName === undefined) scanner.fail('sum(), avg(), count(), max() or min()')
    aggregate = { name: aggregateName, cast: cast(scanner) }
  }
  return { kind: 'field', field: { name: found, path }, alias, cast: type, aggregate }
}

function relation(
  scanner: Scanner,
  found: string,
  alias: string | undefined,
  spread: boolean,
  depth: number,
): SelectRelation {
  let hint: string | undefined
  let join: 'inner' | 'left' | undefined
  while (scanner.skips('!')) {
    const word = name(scanner)
    if (join === undefined && (word === 'inner' || word === 'left')) join = word
    else if (hint === undefined) hint = word
    else scanner.fail('"("')
  }
  scanner.expects('(')
  const select = items(scanner, depth + 1)
  scanner.expects(')', '"," or ")"')
  return { kind: 'relation', name: found, alias, hint, join, spread, select }
}

/** All of `select`; empty is nothing selected at this level. */
export const select = (scanner: Scanner): SelectItem[] => items(scanner, 0)
