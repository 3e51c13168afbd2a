/** The input of every plan, and what all plans need: their relation, and the response body. */
import type { QualifiedName, SchemaCache, Table } from '../../schema-cache/types.ts'
import { invalidPreferences, tableNotFound } from '../errors/catalogue.ts'
import type { Action, ApiRequest } from '../parse/request.ts'
import type { ParsedQuery } from '../parse/types.ts'
import { negotiate } from './media.ts'
import { suggestion } from './suggestions.ts'
import type { BodyPlan } from './types.ts'

export type PlanSettings = {
  readonly maximumRows: number | undefined
  readonly aggregatesEnabled: boolean
  readonly plansEnabled: boolean
  readonly ndjsonEnabled: boolean
  /** Whether a request must name an embedding by its alias if there is one. */
  readonly aliasesOnly: boolean
}

export type ActionOf<Kind extends Action['kind']> = Extract<Action, { kind: Kind }>
export type Context = {
  readonly request: ApiRequest
  readonly cache: SchemaCache
  readonly settings: PlanSettings
}

/** The relation with this name. @throws RST205 if the relation is unknown */
export function findTable(cache: SchemaCache, schema: string, name: string): Table {
  const table = cache.tables.get(schema)?.get(name)
  if (table !== undefined) return table
  const meant = suggestion(name, cache.tables.get(schema)?.keys() ?? [], 0.75)
  throw tableNotFound({ schema, name }, meant)
}

const selectsAll = ({ select }: ParsedQuery): boolean => {
  const [only] = select
  return (
    select.length === 1 &&
    only?.kind === 'field' &&
    only.field.name === '*' &&
    only.alias === undefined &&
    only.aggregate === undefined
  )
}

/** Selects the response body. If no media type is acceptable, the returned function throws, after all other checks. */
export function bodyOf({ request, cache, settings }: Context, subject: QualifiedName): () => BodyPlan {
  const completeRows = selectsAll(request.query)
  const { plansEnabled, ndjsonEnabled } = settings
  return () => negotiate(request.accept, { cache, subject, completeRows, plansEnabled, ndjsonEnabled })
}

/** With handling=strict, unknown preferences get RST122. */
export function checkPreferences({ preferences: { handling, invalid } }: ApiRequest): void {
  if (handling === 'strict' && invalid.length > 0) throw invalidPreferences(invalid)
}

/** For an execution plan: the plan of a statement without a body. */
export const withoutBody = (body: BodyPlan): BodyPlan => ({ ...body, shape: { kind: 'none' } })
