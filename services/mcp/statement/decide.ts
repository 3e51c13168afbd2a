/** Decides whether and how a statement may run, from its kind, its names and the catalogue. */
import type { Analysis, Call, Name } from './analysis.ts'
import type { CatalogueFacts, VolatileFunction } from './facts.ts'
import { isDangerous, isOfWrites, isReadOnly, isViewOfFiles } from './functions.ts'
import { StatementRefusal } from './refusal.ts'
import { refuseSecrets } from './secrets.ts'

export type Decision = {
  /** `read`: in a READ ONLY transaction that is rolled back. `write`: in a transaction that is committed. */
  readonly mode: 'read' | 'write'
  /** Why a user must confirm the statement first; undefined: no confirmation. */
  readonly confirm: string | undefined
}

/** A function that a read may not call. */
type Objection = { readonly name: string; readonly isForbidden: boolean; readonly how: string }

/** A catalogue name can be any text, and the server's message contains it. So the message omits unusual names. */
const plainName = /^[\p{L}\p{N}_$#@+*/<>=~!%^&|?.-]{1,128}$/u

function shown({ schema, name }: { readonly schema?: string | undefined; readonly name: string }): string {
  const qualified = schema === undefined || schema === 'pg_catalog' ? name : `${schema}.${name}`
  return plainName.test(qualified) ? qualified : '(a name with spaces or other signs)'
}

const isVisible = ({ schema }: Name, candidate: string, { searchPath }: CatalogueFacts): boolean =>
  schema === undefined ? searchPath.includes(candidate) : schema === candidate

const takes = ({ fewest, most }: VolatileFunction, count: number | undefined): boolean =>
  count === undefined || (count >= fewest && count <= most)

function objectionTo(
  found: Pick<VolatileFunction, 'schema' | 'name' | 'extension'>,
  how: string,
): Objection | undefined {
  const { schema, name, extension } = found
  if (isDangerous(name)) return { name: shown(found), isForbidden: !isOfWrites(name), how }
  if (isReadOnly(schema, name, extension)) return undefined
  // Functions of Postgres that are not known to be harmless are for superusers. Functions of users are for callers who
  // may write.
  return { name: shown(found), isForbidden: schema === 'pg_catalog' && !isOfWrites(name), how }
}

function objectionToCall(call: Call, facts: CatalogueFacts, how: string): Objection | undefined {
  if (isDangerous(call.name)) return { name: shown(call), isForbidden: !isOfWrites(call.name), how }
  const candidates = facts.volatile.get(call.name) ?? []
  for (const candidate of candidates) {
    if (!isVisible(call, candidate.schema, facts) || !takes(candidate, call.arguments)) continue
    const objection = objectionTo(candidate, how)
    if (objection !== undefined) return objection
  }
  return undefined
}

function objectionToOperator(operator: Name, facts: CatalogueFacts): Objection | undefined {
  const schemas = facts.operators.get(operator.name) ?? []
  // If an operator has the same name as a Postgres operator, an unqualified use counts as the Postgres operator.
  if (operator.schema === undefined && facts.ownOperators.has(operator.name)) return undefined
  const schema = schemas.find(candidate => isVisible(operator, candidate, facts))
  return schema === undefined
    ? undefined
    : { name: shown({ schema, name: operator.name }), isForbidden: false, how: 'the operator' }
}

function objectionToCast(type: Name, facts: CatalogueFacts): Objection | undefined {
  const schema = facts.casts.get(type.name)?.find(candidate => isVisible(type, candidate, facts))
  return schema === undefined
    ? undefined
    : { name: shown({ schema, name: type.name }), isForbidden: false, how: 'a cast to' }
}

function objectionToView(relation: Name, facts: CatalogueFacts): Objection | undefined {
  if (isViewOfFiles(relation.name) && isVisible(relation, 'pg_catalog', facts))
    return { name: relation.name, isForbidden: true, how: 'the view' }
  for (const view of facts.views.get(relation.name) ?? []) {
    if (!isVisible(relation, view.schema, facts)) continue
    for (const called of view.functions) {
      const objection = objectionTo(called, `${shown({ schema: view.schema, name: relation.name })} calls`)
      if (objection !== undefined) return objection
    }
  }
  return undefined
}

function* objections(analysis: Analysis, facts: CatalogueFacts): Generator<Objection | undefined> {
  for (const call of analysis.calls) {
    yield objectionToCall(call, facts, 'the function')
    // `f(x)` may be a cast to the type f.
    yield objectionToCast(call, facts)
  }
  for (const { name, isOfAny } of analysis.attributes) {
    const named = { schema: undefined, name }
    // `x.f` means f(x) if x has no such column. If x is a row, only functions that accept a row matter.
    if (isOfAny || facts.volatile.get(name)?.some(({ takesRow }) => takesRow))
      yield objectionToCall({ ...named, arguments: 1 }, facts, 'the function')
    if (isOfAny) yield objectionToCast(named, facts)
  }
  for (const operator of analysis.operators) yield objectionToOperator(operator, facts)
  for (const type of analysis.types) yield objectionToCast(type, facts)
  for (const relation of analysis.relations) yield objectionToView(relation, facts)
}

/** Returns a forbidden function first, because other objections do not matter then. */
function worst(analysis: Analysis, facts: CatalogueFacts): Objection | undefined {
  let first: Objection | undefined
  for (const objection of objections(analysis, facts)) {
    if (objection?.isForbidden) return objection
    first ??= objection
  }
  return first
}

const readOnly = (what: string): StatementRefusal =>
  new StatementRefusal(
    'read-only',
    `This database is read-only here: ${what}. Only reads run, unless its configuration has allow_writes: true.`,
  )

function refuseForbidden({ name, how }: Objection): never {
  throw new StatementRefusal(
    'forbidden',
    `Refused: ${how} ${name}, which reaches outside of the query (files, other servers or sessions, settings, locks, or text run as SQL) or is not known to be harmless.`,
  )
}

function refuseVolatile({ name, how }: Objection): never {
  throw new StatementRefusal(
    'read-only',
    `Refused: ${how} ${name}, which is VOLATILE or changes something, so it may write. If it only reads, its owner can declare it so (ALTER FUNCTION ... STABLE); if it is meant to write, the configuration of this database needs allow_writes: true.`,
  )
}

function decideRead(analysis: Analysis, facts: CatalogueFacts, allowWrites: boolean): Decision {
  const { hasWrite, hasInto, hasLock } = analysis
  const objection = worst(analysis, facts)
  if (objection?.isForbidden) refuseForbidden(objection)
  const changes = hasWrite
    ? 'the statement writes in a WITH'
    : hasInto
      ? 'SELECT INTO makes a table'
      : hasLock
        ? 'FOR UPDATE and FOR SHARE lock rows'
        : undefined
  if (!allowWrites) {
    if (changes !== undefined) throw readOnly(changes)
    if (objection !== undefined) refuseVolatile(objection)
  }
  return {
    mode: changes === undefined && objection === undefined ? 'read' : 'write',
    confirm: confirmationOf(analysis),
  }
}

function confirmationOf({ hasUnfiltered, isOrdinary, class: kind, tag }: Analysis): string | undefined {
  if (hasUnfiltered) return 'changes every row of a table, for it has no WHERE that says which'
  return kind === 'definition' && !isOrdinary
    ? `is ${tag}, which may delete or replace existing data or objects`
    : undefined
}

/** What a database's configuration allows beyond reads. */
export type Permissions = {
  readonly allowWrites: boolean
  /** Whether writes are also allowed for a privileged login. */
  readonly allowPrivilegedLogin: boolean
}

export const readsOnly: Permissions = { allowWrites: false, allowPrivilegedLogin: false }

/** @throws StatementRefusal */
export function decide(analysis: Analysis, facts: CatalogueFacts, permissions: Permissions): Decision {
  const decision = decideWith(analysis, facts, permissions.allowWrites)
  if (decision.mode === 'write' && facts.isPowerful && !permissions.allowPrivilegedLogin) {
    throw new StatementRefusal(
      'forbidden',
      'Refused: the login of this database is a superuser, or can create roles, run programs, or read or write files of the server. The text of a function could do the same. Give this tool server a role with only the grants that it needs, or set allow_privileged_login: true in the configuration of this database.',
    )
  }
  return decision
}

function decideWith(analysis: Analysis, facts: CatalogueFacts, allowWrites: boolean): Decision {
  refuseSecrets(analysis, facts)
  switch (analysis.class) {
    case 'other':
      throw new StatementRefusal('forbidden', `${analysis.tag} is not run here, whatever the database allows.`)
    case 'show':
      return { mode: 'read', confirm: undefined }
    case 'explain':
      // The explained statement must be a read, because ANALYZE runs it.
      return decideRead(analysis, facts, false)
    case 'select':
      return decideRead(analysis, facts, allowWrites)
    case 'write':
    case 'definition': {
      if (!allowWrites) throw readOnly(`${analysis.tag} writes`)
      const objection = worst(analysis, facts)
      if (objection?.isForbidden) refuseForbidden(objection)
      return { mode: 'write', confirm: confirmationOf(analysis) }
    }
  }
}
