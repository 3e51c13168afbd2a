/** What every plan is made from, and what plans of all kinds have in common: their relation, and the body they are answered with. */
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
  /** Whether an embedding with an alias has no other name. */
  readonly aliasesOnly: boolean
}

export type ActionOf<Kind extends Action['kind']> = Extract<Action, { kind: Kind }>
export type Context = {
  readonly request: ApiRequest
  readonly cache: SchemaCache
  readonly settings: PlanSettings
}

/** The relation of this name; RST205 where it is not known. */
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

/** What is answered. That nothing acceptable can be, is said by the function that this returns, once the rest of the request has been found right. */
export function bodyOf({ request, cache, settings }: Context, subject: QualifiedName): () => BodyPlan {
  const wholeRows = selectsAll(request.query)
  const { plansEnabled, ndjsonEnabled } = settings
  return () => negotiate(request.accept, { cache, subject, wholeRows, plansEnabled, ndjsonEnabled })
}

/** With handling=strict, what nobody knows is RST122. */
export function checkPreferences({ preferences: { handling, invalid } }: ApiRequest): void {
  if (handling === 'strict' && invalid.length > 0) throw invalidPreferences(invalid)
}

/** Of a plan that is asked for, one of a statement without a body. */
export const withoutBody = (body: BodyPlan): BodyPlan => ({ ...body, shape: { kind: 'none' } })
