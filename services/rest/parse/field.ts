/** Names, JSON paths and casts: what select, filters, order and columns have in common. */
import type { Scanner } from './scanner.ts'
import type { Field, JsonStep } from './types.ts'

export const fieldName = 'field name (* or [a..z0..9_$])'
const jsonKey = '"-", digit or any non reserved character different from: .,>()'

/** How deep a request may nest: parentheses of select and logic, and steps of a JSON path. */
export const maximumDepth = 64

/** Letters and digits of any script, `_`, `$` and spaces; a dash where it does not begin an arrow. */
const identifier = /(?:[\p{L}\p{N}\p{M}_ $]|-(?!>)(?=[\p{L}\p{N}\p{M}_ $]))+/uy
const jsonIdentifier = /(?:[^(\-:.,>)]|-(?!>)(?=[^(\-:.,>)]))+/uy
const index = /-?[0-9]+(?=->|::|[.,)]|$)/y
const castName = /[\p{L}\p{N}\p{M}_ $[\]]+/uy

const wholeQuoted = /"(?:[^"\\]|\\[\s\S])*"/uy

/** The inside of double quotes, where they end and what ends a value follows; nothing is consumed otherwise. */
export function quotedValue(scanner: Scanner): string | undefined {
  const start = scanner.at
  const found = scanner.takes(wholeQuoted)
  if (found !== undefined && (scanner.done || scanner.sees(',') || scanner.sees(')'))) {
    return found.slice(1, -1).replace(/\\([\s\S])/gu, '$1')
  }
  scanner.at = start
  return undefined
}

/** The inside of double quotes; a backslash keeps the character after it. */
function quoted(scanner: Scanner): string {
  scanner.expects('"')
  let text = ''
  for (;;) {
    const plain = scanner.takes(/[^"\\]+/y)
    if (plain !== undefined) text += plain
    else if (scanner.skips('\\')) text += scanner.takes(/[\s\S]/uy) ?? scanner.fail('a character after the backslash')
    else if (scanner.skips('"')) return text
    else scanner.fail('"\\"" at the end of the quoted text')
  }
}

export function name(scanner: Scanner, expecting = fieldName): string {
  const start = scanner.at
  const found = scanner.sees('"') ? quoted(scanner) : (scanner.takes(identifier)?.trim() ?? '')
  return found === '' ? scanner.fail(expecting, start) : found
}

function jsonStep(scanner: Scanner): JsonStep | undefined {
  const arrow = scanner.skips('->>') ? '->>' : scanner.skips('->') ? '->' : undefined
  if (arrow === undefined) return undefined
  if (scanner.sees('"')) return { arrow, key: quoted(scanner) }
  const number = scanner.takes(index)
  // A number past what Postgres takes as an index can only be a key.
  if (number !== undefined && Math.abs(Number(number)) < 2 ** 31) return { arrow, key: Number(number) }
  const key = number ?? scanner.takes(jsonIdentifier)?.trim()
  return key === undefined || key === '' ? scanner.fail(jsonKey) : { arrow, key }
}

export function jsonPath(scanner: Scanner): JsonStep[] {
  const path: JsonStep[] = []
  for (let step = jsonStep(scanner); step !== undefined; step = jsonStep(scanner)) {
    if (path.push(step) > maximumDepth) scanner.fail(`at most ${maximumDepth} steps into a JSON value`)
  }
  return path
}

export const field = (scanner: Scanner): Field => ({ name: name(scanner), path: jsonPath(scanner) })

/** `::type`, as a type is named: letters, digits, `_`, `$`, spaces and brackets. */
export function cast(scanner: Scanner): string | undefined {
  if (!scanner.skips('::')) return undefined
  const type = scanner.takes(castName)?.trim() ?? ''
  return /^[ [\]]*$/.test(type) ? scanner.fail('the name of a type') : type
}

/** One or more of something, separated by commas. */
export function commaSeparated<T>(scanner: Scanner, one: (scanner: Scanner) => T): T[] {
  const list = [one(scanner)]
  while (scanner.skips(',')) list.push(one(scanner))
  return list
}
