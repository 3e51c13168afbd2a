/** The privileges that a plan needs on objects that the request names. Pure. */
import type { QualifiedName } from '../../schema-cache/types.ts'
import type { Condition, EmbeddedNode, Plan, PlannedColumn, ReadNode, Write } from '../plan/types.ts'

type TablePrivilege = 'SELECT' | 'INSERT' | 'UPDATE' | 'DELETE'

/** `columns`: `*` means all columns. Empty: the privilege on any column is enough. */
type Need =
  | {
      readonly kind: 'relation'
      readonly schema: string
      readonly name: string
      readonly privilege: TablePrivilege
      readonly columns: readonly string[]
    }
  | {
      readonly kind: 'function'
      readonly schema: string
      readonly name: string
      readonly types: readonly string[] | null
    }

const onRelation = ({ schema, name }: QualifiedName, privilege: TablePrivilege, columns: Iterable<string>): Need => ({
  kind: 'relation',
  schema,
  name,
  privilege,
  columns: [...new Set(columns)],
})

function conditionColumns(condition: Condition): string[] {
  switch (condition.kind) {
    case 'filter':
      return [condition.field.name]
    case 'embedded':
      return []
    case 'group':
      return condition.members.flatMap(conditionColumns)
  }
}

const selected = (column: PlannedColumn): string[] =>
  // A count of all rows reads no columns.
  column.aggregate?.name === 'count' && column.field.name === '*' ? [] : [column.field.name]

/** The parent's columns in an embedding's join. */
const parentColumns = ({ join }: EmbeddedNode): string[] =>
  join.kind === 'columns'
    ? join.columns.map(([column]) => column)
    : join.kind === 'junction'
      ? join.sourceColumns.map(([column]) => column)
      : ['*']

function embeddedNeeds({ node, join }: EmbeddedNode): Need[] {
  switch (join.kind) {
    case 'columns':
      return readNeeds(
        node,
        join.columns.map(([, target]) => target),
      )
    case 'junction': {
      const pairs = [...join.sourceColumns, ...join.targetColumns].map(([, column]) => column)
      const own = join.targetColumns.map(([column]) => column)
      return [onRelation(join.table, 'SELECT', pairs), ...readNeeds(node, own)]
    }
    case 'function':
      return [{ kind: 'function', ...join.function, types: null }, ...readNeeds(node, [])]
  }
}

function readNeeds(node: ReadNode, joined: readonly string[]): Need[] {
  const embeddings = node.select.filter(item => item.kind === 'embedded')
  const columns = [
    ...node.select.flatMap(item => (item.kind === 'column' ? selected(item) : parentColumns(item))),
    ...node.conditions.flatMap(conditionColumns),
    ...node.order.flatMap(({ field, child }) => (child === undefined ? [field.name] : [])),
    ...joined,
  ]
  return [onRelation(node.relation, 'SELECT', columns), ...embeddings.flatMap(embeddedNeeds)]
}

function writeNeeds(relation: QualifiedName, write: Write): Need[] {
  const read = (columns: readonly string[]) => (columns.length === 0 ? [] : [onRelation(relation, 'SELECT', columns)])
  switch (write.kind) {
    case 'insert': {
      const columns = write.source.columns.map(({ name }) => name)
      const { onConflict } = write
      if (onConflict === undefined) return [onRelation(relation, 'INSERT', columns)]
      const updated = onConflict.resolution === 'merge' ? [onRelation(relation, 'UPDATE', columns)] : []
      return [onRelation(relation, 'INSERT', columns), ...updated, ...read(onConflict.columns)]
    }
    case 'update': {
      const columns = write.source.columns.map(({ name }) => name)
      return [onRelation(relation, 'UPDATE', columns), ...read(write.conditions.flatMap(conditionColumns))]
    }
    case 'delete':
      return [onRelation(relation, 'DELETE', []), ...read(write.conditions.flatMap(conditionColumns))]
  }
}

/** The privileges for the plan itself. Excludes privileges that views, triggers and functions need. */
export function needsOf(plan: Plan): Need[] {
  switch (plan.kind) {
    case 'read':
      return readNeeds(plan.read, [])
    case 'write':
      return [
        ...writeNeeds(plan.relation, plan.write),
        ...(plan.wants === 'representation' ? readNeeds(plan.read, []) : []),
        ...(plan.locationKey.length === 0 ? [] : [onRelation(plan.relation, 'SELECT', plan.locationKey)]),
      ]
    case 'call': {
      const { schema, name, parameters } = plan.routine
      const embeddings = plan.read.select.filter(item => item.kind === 'embedded')
      return [
        { kind: 'function', schema, name, types: parameters.map(({ type }) => type) },
        ...embeddings.flatMap(embeddedNeeds),
      ]
    }
  }
}
