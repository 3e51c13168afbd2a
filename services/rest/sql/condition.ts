/** Fields and conditions as SQL (Postgres manual chapter 9). */

import { qualified, quoteIdentifier } from '../../postgres/quote.ts'
import type { Operation } from '../parse/types.ts'
import type { Condition, EmbeddedNode, PlannedField } from '../plan/types.ts'
import { arrayLiteral, rowOf, type StatementWriter } from './statement.ts'

const operators = {
  eq: '=',
  gte: '>=',
  gt: '>',
  lte: '<=',
  lt: '<',
  like: 'LIKE',
  ilike: 'ILIKE',
  match: '~',
  imatch: '~*',
  neq: '<>',
  cs: '@>',
  cd: '<@',
  ov: '&&',
  sl: '<<',
  sr: '>>',
  nxr: '&<',
  nxl: '&>',
  adj: '-|-',
} as const

const searchFunctions = {
  fts: 'to_tsquery',
  plfts: 'plainto_tsquery',
  phfts: 'phraseto_tsquery',
  wfts: 'websearch_to_tsquery',
} as const

const isWords = {
  null: 'NULL',
  not_null: 'NOT NULL',
  true: 'TRUE',
  false: 'FALSE',
  unknown: 'UNKNOWN',
} as const

/** A column of the rows with the alias `source`, and a JSON path in the column. */
export function fieldSql(writer: StatementWriter, source: string, field: PlannedField): string {
  const { name, path, baseType, computed } = field
  const column =
    computed === undefined
      ? `${quoteIdentifier(source)}.${quoteIdentifier(name)}`
      : `${qualified(computed.function)}(${rowOf(source)}::${qualified(computed.of)})`
  if (path.length === 0) return column
  // A path needs JSON, so arrays and composites are converted. JSON columns are used unchanged.
  const isJson = baseType === 'json' || baseType === 'jsonb'
  const steps = path.map(({ arrow, key }) =>
    typeof key === 'number'
      ? `${arrow}${writer.sharedValue(String(key), 'int4')}`
      : `${arrow}${writer.sharedValue(key)}`,
  )
  return `${isJson ? column : `to_jsonb(${column})`}${steps.join('')}`
}

/** A comparison value. If the field's domain has a conversion, the value passes through it. */
const operand = (writer: StatementWriter, field: PlannedField, value: string): string =>
  field.fromText === undefined ? writer.value(value) : `${qualified(field.fromText)}(${writer.value(value)}::text)`

const isPattern = (operator: string): boolean => operator === 'like' || operator === 'ilike'

function operationSql(writer: StatementWriter, source: string, field: PlannedField, operation: Operation): string {
  const left = fieldSql(writer, source, field)
  switch (operation.kind) {
    case 'compare': {
      const { operator, quantifier } = operation
      const value = isPattern(operator) ? operation.value.replaceAll('*', '%') : operation.value
      if (quantifier === undefined) {
        const right = isPattern(operator) ? writer.value(value) : operand(writer, field, value)
        return `${left} ${operators[operator]} ${right}`
      }
      return `${left} ${operators[operator]} ${quantifier === 'any' ? 'ANY' : 'ALL'} (${writer.value(value)})`
    }
    case 'plain':
      return `${left} ${operators[operation.operator]} ${operand(writer, field, operation.value)}`
    case 'in': {
      const isPlain = field.fromText === undefined || operation.values.length === 0
      if (isPlain) return `${left} = ANY (${writer.value(arrayLiteral(operation.values))})`
      return `${left} = ANY (ARRAY[${operation.values.map(value => operand(writer, field, value)).join(', ')}])`
    }
    case 'is':
      return `${left} IS ${isWords[operation.value]}`
    case 'isdistinct':
      return `${left} IS DISTINCT FROM ${writer.value(operation.value)}`
    case 'search': {
      const language = operation.language === undefined ? '' : `${writer.value(operation.language)}::regconfig, `
      const isDocument = field.baseType !== undefined && field.baseType !== 'tsvector'
      const vector = isDocument ? `to_tsvector(${language}${left})` : left
      return `${vector} @@ ${searchFunctions[operation.operator]}(${language}${writer.value(operation.value)})`
    }
  }
}

/** Where conditions find their fields: the rows have the alias `source`, and each embedding has its own alias. */
export type Scope = { readonly source: string; readonly children: readonly EmbeddedNode[] }

/**
 * Whether an embedding has a row. For a to-one embedding, checks the row itself, because all its columns may be null.
 */
function embeddedSql({ children }: Scope, alias: string, isNull: boolean): string {
  const isToOne = children.find(child => child.alias === alias)?.toOne === true
  const subject = isToOne ? rowOf(alias) : `${quoteIdentifier(alias)}."rst_rows"`
  return `${subject} IS ${isNull ? 'NOT ' : ''}DISTINCT FROM NULL`
}

export function conditionSql(writer: StatementWriter, scope: Scope, condition: Condition): string {
  switch (condition.kind) {
    case 'filter': {
      const text = operationSql(writer, scope.source, condition.field, condition.operation)
      return condition.negated ? `NOT (${text})` : text
    }
    case 'embedded':
      return embeddedSql(scope, condition.child, condition.isNull)
    case 'group': {
      const members = condition.members.map(member => conditionSql(writer, scope, member))
      return `${condition.negated ? 'NOT ' : ''}(${members.join(condition.operator === 'or' ? ' OR ' : ' AND ')})`
    }
  }
}

/** ` WHERE ...`, or nothing. */
export const whereSql = (conditions: readonly string[]): string =>
  conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`
