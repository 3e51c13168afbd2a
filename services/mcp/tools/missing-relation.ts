/**
 * Suggests names for a missing table in a statement. Finds the name by the position that Postgres reports, because the
 * language of Postgres's messages can be configured.
 */
import { DatabaseError } from '../../../wire/errors.ts'
import type { Catalogue, Reading } from '../catalogue/index.ts'
import { fencedNames, nearestNames, suggestion } from '../catalogue/names.ts'
import type { Overview } from '../catalogue/relations.ts'

const identifier = '("(?:[^"]|"")+"|[\\p{L}_][\\p{L}\\p{N}_$]*)'
const relationName = new RegExp(`^${identifier}(?:\\s*\\.\\s*${identifier})?`, 'u')
const mostSuggested = 3

const plain = (part: string): string =>
  part.startsWith('"') ? part.slice(1, -1).replaceAll('""', '"') : part.toLowerCase()

type Missing = { readonly schema: string | undefined; readonly name: string }

/** `position`: in code points, from 0. */
function nameAt(statement: string, position: number): Missing | undefined {
  const [, first, second] = relationName.exec([...statement].slice(position).join('')) ?? []
  if (first === undefined) return undefined
  return second === undefined
    ? { schema: undefined, name: plain(first) }
    : { schema: plain(first), name: plain(second) }
}

/** Returns an empty text if no name is similar. */
function meantRelation({ schema, name }: Missing, { relations, schemas }: Overview): string {
  const isVisibleSchema = schema === undefined || schemas.some(one => one.name === schema)
  const inSchema = relations.filter(relation => schema === undefined || relation.schema === schema)
  const near = new Set(
    nearestNames(
      name,
      inSchema.map(relation => relation.name),
    ),
  )
  const elsewhere = relations.filter(relation => relation.name === name)
  const meant = [...elsewhere, ...inSchema.filter(relation => near.has(relation.name))].map(
    relation => `${relation.schema}.${relation.name}`,
  )
  const suggestedNames = [...new Set(meant)].slice(0, mostSuggested)
  const suggested = suggestedNames.length === 0 ? '' : ` Did you mean one of these?\n${fencedNames(suggestedNames)}`
  if (isVisibleSchema) return suggested.trimStart()
  const names = schemas.map(one => one.name)
  return `There is no schema "${schema}" that this role may use.${suggested || suggestion(schema, names)}`
}

/**
 * Reads the catalogue only if the error is a missing table. Returns a text to append to the message, or an empty text.
 */
export async function missingRelation(
  error: unknown,
  statement: string,
  prefix: number,
  reading: Reading,
  catalogue: Catalogue,
): Promise<string> {
  if (!(error instanceof DatabaseError) || error.sqlState !== '42P01' || error.position === null) return ''
  const missing = nameAt(statement, error.position - 1 - prefix)
  if (missing === undefined) return ''
  // If the catalogue cannot be read, the caller still receives the statement's own error.
  const overview = await catalogue.overview(reading).catch(() => undefined)
  const meant = overview === undefined ? '' : meantRelation(missing, overview)
  return meant === '' ? '' : `\n${meant}`
}
