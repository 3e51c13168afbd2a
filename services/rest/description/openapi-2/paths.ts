/** The operations of each path: the document itself, each table with its methods, and each function under /rpc. */
import type { Routine, Table } from '../../../schema-cache/types.ts'
import { splitComment } from '../model.ts'
import { argumentsDefinition } from './definitions.ts'
import { preferParams, queryArguments, tableReferences } from './parameters.ts'
import { type Operation, type PathItem, reference, unlessEmpty } from './swagger.ts'

/** Media types of tables and functions. */
export const jsonMediaTypes = [
  'application/json',
  'application/vnd.pgrst.object+json;nulls=stripped',
  'application/vnd.pgrst.object+json',
]

const root: PathItem = {
  get: {
    tags: ['Introspection'],
    summary: 'OpenAPI description (this document)',
    produces: ['application/openapi+json', 'application/json'],
    responses: { 200: { description: 'OK' } },
  },
}

/** The comment on the database object becomes the summary and description of each operation. */
function commented(tag: string, comment: string | null): Pick<Operation, 'tags' | 'summary' | 'description'> {
  const parts = splitComment(comment)
  return { tags: [tag], summary: parts?.summary, description: parts?.description || undefined }
}

/** Only GET if clients can write nothing. Otherwise every method, although a view may refuse one of them. */
function tablePath(table: Table): PathItem {
  const about = commented(table.name, table.description)
  const parameters = tableReferences(table)
  const rows = { type: 'array', items: reference('definitions', table.name) } as const
  const get: Operation = {
    ...about,
    parameters: parameters.get,
    responses: { 200: { description: 'OK', schema: rows }, 206: { description: 'Partial Content' } },
  }
  if (!table.insertable && !table.updatable && !table.deletable) return { get }
  const changed = { 204: { description: 'No Content' } }
  return {
    get,
    post: { ...about, parameters: parameters.post, responses: { 201: { description: 'Created' } } },
    patch: { ...about, parameters: parameters.patch, responses: changed },
    delete: { ...about, parameters: parameters.delete, responses: changed },
  }
}

/** A volatile function may write, and GET must not write. */
function routinePath(routine: Routine, searchPath: ReadonlySet<string>): PathItem {
  const about = {
    ...commented(`(rpc) ${routine.name}`, routine.description),
    produces: jsonMediaTypes,
    responses: { 200: { description: 'OK' } },
  }
  const schema = argumentsDefinition(routine, searchPath)
  const post: Operation = { ...about, parameters: [{ in: 'body', name: 'args', required: true, schema }, preferParams] }
  if (routine.volatility === 'volatile') return { post }
  return { get: { ...about, parameters: unlessEmpty(queryArguments(routine, searchPath)) }, post }
}

/** A path can describe only one of several functions with the same name. It describes the last one. */
export function renderPaths(
  tables: readonly Table[],
  routines: readonly Routine[],
  searchPath: ReadonlySet<string>,
): Readonly<Record<string, PathItem>> {
  return Object.fromEntries([
    ['/', root],
    ...tables.map(table => [`/${table.name}`, tablePath(table)] as const),
    ...routines.map(routine => [`/rpc/${routine.name}`, routinePath(routine, searchPath)] as const),
  ])
}
