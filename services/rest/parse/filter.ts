/** The grammar of filters: `column=not.op(modifier).value`, and the logic trees of `and` and `or`. */
import { commaSeparated, field, fieldName, maximumDepth, quotedValue } from './field.ts'
import type { Scanner } from './scanner.ts'
import {
  isValues,
  type LogicTree,
  type Operation,
  plainOperators,
  type Quantifier,
  quantifiableOperators,
  searchOperators,
} from './types.ts'

const operatorExpected = '"not" or operator (eq, gt, ...)'

/** Reads an operand: what is left of the text, or inside a logic tree what ends at a comma or parenthesis. */
type Operand = (scanner: Scanner) => string

const untilTheEnd: Operand = scanner => scanner.takes(/[\s\S]+/y) ?? ''

/** Of a logic tree: quoted, or `{...}` whole (an array or range may hold commas), or up to the next reserved character. */
const untilReserved: Operand = scanner => {
  const text = quotedValue(scanner)
  if (text !== undefined) return text
  if (scanner.sees('{')) {
    const text = scanner.takes(/\{[^{}]*\}/y)
    if (text !== undefined) return text
  }
  return scanner.takes(/[^,)]+/y) ?? ''
}

/** `(a,"b,c",d)`. */
function list(scanner: Scanner): string[] {
  scanner.expects('(')
  scanner.takes(/[ \t]+/y)
  const values = commaSeparated(scanner, one => quotedValue(one) ?? one.takes(/[^,)]+/y) ?? '')
  scanner.expects(')', '"," or ")"')
  return values.length === 1 && values[0] === '' ? [] : values
}

function operation(scanner: Scanner, operand: Operand, start: number): Operation {
  const word = scanner.takes(/[a-z]+/y) ?? ''
  const found = <T extends string>(names: readonly T[]): T | undefined => names.find(known => known === word)
  const comparison = found(quantifiableOperators)
  if (comparison !== undefined) {
    const quantifier: Quantifier | undefined = scanner.skips('(any)')
      ? 'any'
      : scanner.skips('(all)')
        ? 'all'
        : undefined
    scanner.expects('.')
    return { kind: 'compare', operator: comparison, quantifier, value: operand(scanner) }
  }
  const plain = found(plainOperators)
  if (plain !== undefined) {
    scanner.expects('.')
    return { kind: 'plain', operator: plain, value: operand(scanner) }
  }
  const search = found(searchOperators)
  if (search !== undefined) {
    let language: string | undefined
    if (scanner.skips('(')) {
      const start = scanner.at
      language = scanner.takes(/[\p{L}\p{N}_ $-]+/uy)?.trim() ?? ''
      // Postgres takes a number or a dash for the id of a configuration, and where there is none of that id for a fault of its own.
      if (/^(?:[0-9]*|-)$/.test(language)) scanner.fail('the name of a text search configuration', start)
      scanner.expects(')')
    }
    scanner.expects('.')
    return { kind: 'search', operator: search, language, value: operand(scanner) }
  }
  switch (word) {
    case 'in':
      scanner.expects('.')
      return { kind: 'in', values: list(scanner) }
    case 'is': {
      scanner.expects('.')
      const value = scanner.takes(/[A-Za-z_]+/y)?.toLowerCase()
      const known = isValues.find(one => one === value)
      return known === undefined
        ? scanner.fail('null, not_null, true, false or unknown', scanner.at - (value?.length ?? 0))
        : { kind: 'is', value: known }
    }
    case 'isdistinct':
      scanner.expects('.')
      return { kind: 'isdistinct', value: operand(scanner) }
    default:
      return scanner.fail(operatorExpected, start)
  }
}

function negatable(scanner: Scanner, operand: Operand): { negated: boolean; operation: Operation } {
  const start = scanner.at
  const negated = scanner.skips('not.')
  return { negated, operation: operation(scanner, operand, negated ? scanner.at : start) }
}

/** The value of a filter parameter. */
export const filterValue = (scanner: Scanner): { negated: boolean; operation: Operation } =>
  negatable(scanner, untilTheEnd)

/** `and(...)`, `or(...)`, `not.and(...)`, `not.or(...)`, or a filter inside of one of them. */
export function logicTree(scanner: Scanner, depth = 0): LogicTree {
  if (depth > maximumDepth) scanner.fail(`at most ${maximumDepth} nested groups`)
  scanner.takes(/ +/y)
  const opening = scanner.takes(/(?:not\.)?(?:and|or)(?= *\()/y)
  scanner.takes(/ +/y)
  if (opening === undefined) return { kind: 'filter', filter: memberFilter(scanner) }
  scanner.expects('(')
  const members = commaSeparated(scanner, one => {
    const member = logicTree(one, depth + 1)
    one.takes(/ +/y)
    return member
  })
  scanner.expects(')', '"," or ")"')
  return { kind: 'group', operator: opening.endsWith('or') ? 'or' : 'and', negated: opening.startsWith('not'), members }
}

function memberFilter(scanner: Scanner) {
  if (scanner.done || scanner.sees(')') || scanner.sees('(')) {
    scanner.fail(`${fieldName}, negation operator (not) or logic operator (and, or)`)
  }
  const target = field(scanner)
  scanner.expects('.')
  return { field: target, ...negatable(scanner, untilReserved) }
}
