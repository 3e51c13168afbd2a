/**
 * Parses the conditions that Postgres writes in a plan, if an index can support them. Ignores unknown forms, so advice
 * may be incomplete, but is not wrong.
 */

/**
 * How an index can support a condition: equality; a range, which must be the index's last column; or a pattern anywhere
 * in a text.
 */
type IndexUse = 'equality' | 'range' | 'pattern'

export type IndexPart = {
  readonly use: IndexUse
  /** The column, unquoted. */
  readonly column: string
  /** The indexed expression as SQL: the column, or lower(column). */
  readonly expression: string
}

const identifier = String.raw`(?:"(?:[^"]|"")+"|[a-z_\u0080-\uffff][\w$\u0080-\uffff]*)`
const operators: Readonly<Record<string, IndexUse>> = {
  '=': 'equality',
  '<': 'range',
  '>': 'range',
  '<=': 'range',
  '>=': 'range',
  '~~': 'pattern',
  '~~*': 'pattern',
}

const unquoted = (name: string) => (name.startsWith('"') ? name.slice(1, -1).replaceAll('""', '"') : name)

/** Splits a text at a separator, but not within quotes or brackets. */
function splitOutside(text: string, separator: string): readonly string[] {
  const parts: string[] = []
  let [depth, from, quote] = [0, 0, '']
  for (let at = 0; at < text.length; at++) {
    const character = text[at] ?? ''
    if (quote !== '') {
      if (character === quote) quote = ''
    } else if (character === "'" || character === '"') quote = character
    else if ('([{'.includes(character)) depth++
    else if (')]}'.includes(character)) depth--
    else if (depth === 0 && text.startsWith(separator, at)) {
      parts.push(text.slice(from, at))
      from = at + separator.length
      at = from - 1
    }
  }
  return [...parts, text.slice(from)]
}

/** Removes the outermost brackets. */
export function bare(text: string): string {
  const trimmed = text.trim()
  if (!trimmed.startsWith('(') || !trimmed.endsWith(')')) return trimmed
  const inside = trimmed.slice(1, -1)
  let [depth, quote] = [0, '']
  for (const character of inside) {
    if (quote !== '') {
      if (character === quote) quote = ''
    } else if (character === "'" || character === '"') quote = character
    else if (character === '(') depth++
    else if (character === ')' && --depth < 0) return trimmed
  }
  return bare(inside)
}

export const conjuncts = (condition: string): readonly string[] => {
  const parts = splitOutside(bare(condition), ' AND ')
  return parts.length === 1 ? parts.map(bare) : parts.flatMap(conjuncts)
}

type Side = {
  readonly alias: string
  readonly column: string
  /** The column as the plan writes it, quoted if necessary. */
  readonly written: string
  readonly wrapper: string | undefined
}

const reference = new RegExp(`^(${identifier})\\.(${identifier})$`)
const call = /^(lower|upper)\((.+)\)$/s
const textCast = /^(.+)::(?:text|bpchar|character varying)$/s

/** Parses a column, plain or in lower() or upper(), with a cast that does not prevent index use. */
function sideOf(text: string, wrapper?: string): Side | undefined {
  const side = bare(text)
  const [, cast] = textCast.exec(side) ?? []
  if (cast !== undefined) return sideOf(cast, wrapper)
  const [, name, inside] = call.exec(side) ?? []
  if (name !== undefined && inside !== undefined && wrapper === undefined) return sideOf(inside, name)
  const [, alias, column] = reference.exec(side) ?? []
  if (alias === undefined || column === undefined) return undefined
  return { alias: unquoted(alias), column: unquoted(column), written: column, wrapper }
}

/** Parses `left operator right`, or `left operator ANY (right)`. */
function comparisonOf(conjunct: string): { left: string; operator: string; right: string } | undefined {
  for (const operator of Object.keys(operators)) {
    const [left, right, ...rest] = splitOutside(conjunct, ` ${operator} `)
    if (left !== undefined && right !== undefined && rest.length === 0) return { left, operator, right }
  }
  return undefined
}

function partOf({ column, written, wrapper }: Side, operator: string, right: string): IndexPart | undefined {
  const use = operators[operator]
  if (use === undefined) return undefined
  const expression = wrapper === undefined ? written : `${wrapper}(${written})`
  const isPrefix = operator === '~~' && /^'[^%_\\']/.test(right.trim())
  return isPrefix
    ? { use: 'range', column, expression: `${expression} text_pattern_ops` }
    : { use, column, expression: use === 'pattern' ? `${expression} gin_trgm_ops` : expression }
}

/** The conditions of a scan's filter that an index on the table could support. */
export function servedBy(filter: string, alias: string): readonly IndexPart[] {
  return conjuncts(filter).flatMap(conjunct => {
    const comparison = comparisonOf(conjunct)
    if (comparison === undefined) return []
    const { left, operator, right } = comparison
    const [first, second] = [sideOf(left), sideOf(right)]
    // A comparison of two columns of one table is not a search for a value.
    if (first?.alias === alias && second?.alias !== alias) return partOf(first, operator, right) ?? []
    if (second?.alias === alias && first?.alias !== alias && operator === '=')
      return partOf(second, operator, left) ?? []
    return []
  })
}

/** The columns of two tables that a join compares for equality. */
export function joinedBy(condition: string): readonly Omit<Side, 'wrapper'>[] {
  return conjuncts(condition).flatMap(conjunct => {
    const comparison = comparisonOf(conjunct)
    if (comparison?.operator !== '=') return []
    const sides = [sideOf(comparison.left), sideOf(comparison.right)]
    const [first, second] = sides
    if (first === undefined || second === undefined || first.alias === second.alias) return []
    return [first, second].filter(({ wrapper }) => wrapper === undefined)
  })
}

/** A sort key that is a column of the table, with its direction. */
export function sortedBy(
  key: string,
  alias: string,
): { readonly column: string; readonly expression: string } | undefined {
  const [, expression = '', direction = ''] = /^(.*?)((?: DESC)?(?: NULLS (?:FIRST|LAST))?)$/s.exec(key) ?? []
  const side = sideOf(expression)
  if (side?.alias !== alias || side.wrapper !== undefined) return undefined
  return { column: side.column, expression: `${side.written}${direction}` }
}
