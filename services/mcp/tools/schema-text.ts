/** Schemas, tables and columns for a model: tab-separated lines, with a heading for each section. */
import type { Column, Constraint, RelationDetails } from '../catalogue/details.ts'
import type { Overview, Relation } from '../catalogue/relations.ts'
import type { Match } from '../catalogue/search.ts'
import { line, type Section, shortened } from './pages.ts'

const shownComment = 120
const shownExpression = 200
const shownReferences = 20
const shownQuery = 600

export function summarySections({ schemas }: Overview, relations: readonly Relation[]): readonly Section[] {
  const bySchema = Map.groupBy(relations, ({ schema }) => schema)
  const lines = schemas.map(({ name, comment }) => {
    const own = bySchema.get(name) ?? []
    const views = own.filter(({ type }) => type.endsWith('VIEW')).length
    const vectors = own.filter(({ hasVectors }) => hasVectors).length
    return line([name, own.length - views, views, vectors, shortened(comment ?? '', shownComment)])
  })
  return [{ heading: line(['schema', 'tables', 'views', 'with_vectors', 'description']), lines }]
}

const rowsOf = ({ estimatedRows }: Relation) => (estimatedRows === undefined ? '' : `~${estimatedRows}`)

export function listSections(relations: readonly Relation[], isCompact: boolean): readonly Section[] {
  if (isCompact)
    return [
      {
        heading: line(['table', 'type']),
        lines: relations.map(relation => line([`${relation.schema}.${relation.name}`, relation.type])),
      },
    ]
  const lines = relations.map(relation =>
    line([
      relation.schema,
      relation.name,
      relation.type,
      rowsOf(relation),
      relation.hasVectors ? 'yes' : '',
      shortened(relation.comment ?? '', shownComment),
    ]),
  )
  return [{ heading: line(['schema', 'table', 'type', 'rows', 'vectors', 'description']), lines }]
}

export function matchSections(matches: readonly Match[]): readonly Section[] {
  const lines = matches.map(({ relation, columns }) =>
    line([
      relation.schema,
      relation.name,
      relation.type,
      rowsOf(relation),
      shortened(columns.join(' '), shownComment),
      shortened(relation.comment ?? '', shownComment),
    ]),
  )
  return [{ heading: line(['schema', 'table', 'type', 'rows', 'matching_columns', 'description']), lines }]
}

/** One line per table: its columns with their types. */
export function compactSections(
  relations: readonly Relation[],
  details: ReadonlyMap<string, RelationDetails>,
): readonly Section[] {
  const lines = relations.map(relation => {
    const { columns = [], constraints = [] } = details.get(relation.oid) ?? {}
    const columnTexts = columns.map(
      ({ name, type }) => `${name} ${type}${keyOf(name, constraints) === 'pk' ? ' pk' : ''}`,
    )
    return line([`${relation.schema}.${relation.name}`, relation.type, columnTexts.join(', ')])
  })
  return [{ heading: line(['table', 'type', 'columns']), lines }]
}

export const columnSections = (
  relations: readonly Relation[],
  details: ReadonlyMap<string, RelationDetails>,
): readonly Section[] =>
  relations.flatMap(relation => {
    const own = details.get(relation.oid)
    return own === undefined ? [] : [tableSection(relation, own)]
  })

const columnHeads = ['column', 'type', 'nullable', 'key', 'references', 'default', 'description']

function tableSection(relation: Relation, details: RelationDetails): Section {
  const rows = rowsOf(relation) === '' ? '' : ` ${rowsOf(relation)} rows`
  const comment = relation.comment === undefined ? '' : `: ${relation.comment}`
  const title = line([`# ${relation.schema}.${relation.name} ${relation.type}${rows}${comment}`])
  const columns = details.columns.map(column => columnLine(column, details))
  return { heading: `${title}\n${line(columnHeads)}`, lines: [...columns, ...tableLines(details)] }
}

function columnLine(column: Column, { constraints, indexes }: RelationDetails): string {
  const isIndexed = indexes.some(({ columns }) => columns.includes(column.name))
  const labels = column.labels.length === 0 ? '' : `one of: ${column.labels.join(', ')}`
  const key = keyOf(column.name, constraints)
  return line([
    column.name,
    column.type,
    column.isNullable ? 'yes' : 'no',
    key === '' && isIndexed ? 'index' : key,
    referenceOf(column.name, constraints),
    shortened(defaultOf(column), shownExpression),
    [column.comment ?? '', labels].filter(text => text !== '').join('; '),
  ])
}

function keyOf(column: string, constraints: readonly Constraint[]): string {
  if (constraints.some(({ kind, columns }) => kind === 'primary key' && columns.includes(column))) return 'pk'
  const isUnique = constraints.some(
    ({ kind, columns }) => kind === 'unique' && columns.length === 1 && columns[0] === column,
  )
  return isUnique ? 'unique' : ''
}

function referenceOf(column: string, constraints: readonly Constraint[]): string {
  const found = constraints.find(
    ({ references, columns }) => references !== undefined && columns[0] === column && columns.length === 1,
  )
  if (found?.references === undefined) return ''
  const { schema, table, columns } = found.references
  return `${schema}.${table}.${columns.join()}`
}

function defaultOf({ identity, generated, default: value }: Column): string {
  if (identity !== undefined) return `identity ${identity}`
  return generated === undefined ? (value ?? '') : `generated: ${generated}`
}

/** Lines about the whole table: its query, partition key, indexes, references, and constraints of several columns. */
function tableLines({ constraints, indexes, referencedBy, partitionKey, viewQuery }: RelationDetails): string[] {
  const constraintLines = constraints
    .filter(({ kind, columns }) => kind === 'check' || kind === 'exclude' || columns.length > 1)
    .map(({ name, definition }) => line([`constraint ${name}: ${definition}`]))
  const indexLines = indexes
    .filter(({ isOfConstraint }) => !isOfConstraint)
    .map(({ name, isUnique, isValid, definition }) =>
      line([`index ${name}: ${isUnique ? 'unique ' : ''}${definition}${isValid ? '' : ' INVALID'}`]),
    )
  const references = referencedBy
    .slice(0, shownReferences)
    .map(({ schema, table, columns }) => `${schema}.${table}(${columns.join(', ')})`)
  const others = referencedBy.length - references.length
  return [
    ...(viewQuery === undefined
      ? []
      : [line([`query: ${shortened(viewQuery.replace(/\s+/g, ' ').trim(), shownQuery)}`])]),
    ...(partitionKey === undefined ? [] : [line([`partitioned by: ${partitionKey}`])]),
    ...constraintLines,
    ...indexLines,
    ...(references.length === 0
      ? []
      : [line([`referenced by: ${references.join(', ')}${others > 0 ? ` and ${others} more` : ''}`])]),
  ]
}
