/** Selects a function among its overloads, and the call's arguments. */

import type { Bytes } from '../../../wire/messages.ts'
import type { Parameter, QualifiedName, Routine, SchemaCache } from '../../schema-cache/types.ts'
import { ambiguousFunction, functionNotFound } from '../errors/catalogue.ts'
import type { RestError } from '../errors/rest-error.ts'
import type { BodyForm, Payload } from '../parse/payload.ts'
import { suggestion } from './suggestions.ts'
import type { Argument, CallArguments } from './types.ts'

/** The arguments of a call: named values, or the full body. */
export type Offer = {
  /** The names of all arguments. */
  readonly names: ReadonlySet<string>
  /** For a POST: the body is the argument of a single unnamed parameter. */
  readonly unnamed: 'json' | 'text' | 'xml' | 'bytea' | undefined
}

const isUnnamed = (parameters: readonly Parameter[]) => parameters.length === 1 && parameters[0]?.name === ''

/** Whether the call has all required named parameters and no unknown ones. */
function takesNames(routine: Routine, { names, unnamed }: Offer): boolean {
  const { parameters } = routine
  // A parameter without a name matches a key without a name.
  if (isUnnamed(parameters) && !(unnamed === 'json' && names.has(''))) return false
  // A raw body has no names. A function without parameters would silently drop the body.
  if (unnamed !== undefined && unnamed !== 'json') return false
  const known = new Set(parameters.map(({ name }) => name))
  return (
    parameters.every(({ name, required }) => !required || names.has(name)) && [...names].every(name => known.has(name))
  )
}

function takesBody({ parameters }: Routine, { unnamed }: Offer): boolean {
  const [only] = parameters
  if (!isUnnamed(parameters) || only === undefined || unnamed === undefined) return false
  return unnamed === 'json' ? only.type === 'json' || only.type === 'jsonb' : only.type === unnamed
}

const qualified = ({ schema, name }: QualifiedName) => `${schema}.${name}`
/** An error repeats at most this many names. */
const maximumListed = 100
const listed = (names: Iterable<string>) => [...names].sort().slice(0, maximumListed).join(', ')

/**
 * How similar a function's name must be for a suggestion. Only a typing error is close enough, since the client may not
 * be allowed to know the function.
 */
const typo = 0.75
/** How similar parameters must be. The client already knows their function. */
const likely = 0.33

/** RST202 for the requested function. */
export function notFound(cache: SchemaCache, wanted: QualifiedName, offer: Offer): RestError {
  const { names, unnamed } = offer
  const inSchema = cache.routines.get(wanted.schema)
  const overloads = inSchema?.get(wanted.name) ?? []
  const isRaw = unnamed !== undefined && unnamed !== 'json'
  const parameterList = listed(names)
  const named =
    names.size === 0
      ? ' without parameters'
      : names.size === 1
        ? ` with parameter ${parameterList}`
        : ` with parameters ${parameterList}`
  const bare =
    unnamed === undefined ? '' : `with a single unnamed ${unnamed === 'json' ? 'json/jsonb' : unnamed} parameter`
  const searched = isRaw ? ` ${bare}` : `${named}${bare === '' ? '' : ` or ${bare}`}`
  const called = isRaw ? '' : names.size === 0 ? ' without parameters' : `(${parameterList})`
  let meant: string | undefined
  if (isRaw) meant = undefined
  else if (overloads.length === 0) {
    const name = suggestion(wanted.name, inSchema?.keys() ?? [], typo)
    meant = name && `${wanted.schema}.${name}`
  } else {
    const signatures = overloads.map(({ parameters }) => `(${listed(parameters.map(({ name }) => name))})`)
    const signature = suggestion(`(${parameterList})`, signatures, likely)
    meant = signature === undefined ? undefined : `${qualified(wanted)}${signature}`
  }
  return functionNotFound(wanted, { called, searched: `the function ${qualified(wanted)}${searched}`, meant })
}

/** The requested function before its argument names are known. */
function unknownName(cache: SchemaCache, wanted: QualifiedName): RestError {
  const meant = suggestion(wanted.name, cache.routines.get(wanted.schema)?.keys() ?? [], typo)
  return functionNotFound(wanted, {
    searched: `functions of the name ${qualified(wanted)}`,
    meant: meant === undefined ? undefined : `${wanted.schema}.${meant}`,
  })
}

function ambiguous(found: readonly Routine[]): RestError {
  const signature = (routine: Routine) =>
    `${qualified(routine)}(${routine.parameters.map(({ name, type }) => `${name} => ${type}`).join(', ')})`
  return ambiguousFunction(found.map(signature))
}

/**
 * The function that a call selects: by the names of its arguments, or else by its one unnamed parameter. @throws RST202
 * and RST203
 */
export function findRoutine(cache: SchemaCache, wanted: QualifiedName, offer: Offer): Routine {
  const overloads = cache.routines.get(wanted.schema)?.get(wanted.name) ?? []
  const byNames = overloads.filter(routine => takesNames(routine, offer))
  const found = byNames.length > 0 ? byNames : overloads.filter(routine => takesBody(routine, offer))
  const [first] = found
  if (first === undefined) throw notFound(cache, wanted, offer)
  if (found.length > 1) throw ambiguous(found)
  return first
}

/** The functions that a call may select, before its body is known. @throws RST202 and RST203 */
export function possibleRoutines(
  cache: SchemaCache,
  wanted: QualifiedName,
  body: BodyForm | undefined,
  columns: readonly string[] | undefined,
): readonly Routine[] {
  const type = body?.type
  if (type === 'text' || type === 'xml' || type === 'bytea') {
    return [findRoutine(cache, wanted, { names: new Set(), unnamed: type })]
  }
  const unnamed = type === 'json' ? 'json' : undefined
  if (unnamed !== undefined && columns !== undefined)
    return [findRoutine(cache, wanted, { names: new Set(columns), unnamed })]
  const overloads = cache.routines.get(wanted.schema)?.get(wanted.name)
  if (overloads === undefined) throw unknownName(cache, wanted)
  return overloads
}

/** Postgres parses a value before it checks a privilege. */
const emptyValues: Readonly<Record<string, string>> = { json: '{}', jsonb: '{}', xml: '<a/>' }

/** Dummy arguments for a plan that Postgres does not run. */
export function emptyArguments({ parameters }: Routine): CallArguments {
  const [only] = parameters
  return only !== undefined && isUnnamed(parameters)
    ? { kind: 'unnamed', value: emptyValues[only.type] ?? '', type: only.type }
    : {
        kind: 'json',
        json: '{}',
        isArray: false,
        parameters: parameters.map(parameter => ({ parameter, key: parameter.name })),
      }
}

type NamedValues = readonly (readonly [name: string, value: string | Bytes])[]

/** A call's arguments, from its query string and body. */
export function offerOf(
  parameters: NamedValues,
  payload: Payload | undefined,
  columns: readonly string[] | undefined,
): Offer {
  if (payload === undefined) return { names: new Set(parameters.map(([name]) => name)), unnamed: undefined }
  switch (payload.kind) {
    case 'raw':
      return { names: new Set(), unnamed: payload.type }
    case 'form':
      return { names: new Set(payload.fields.map(([name]) => name)), unnamed: undefined }
    case 'json':
      return { names: new Set(payload.keys ?? columns), unnamed: payload.csvKeys === undefined ? 'json' : undefined }
  }
}

/** The last of several values for a name is used. A variadic parameter gets all values. */
function valuesFor(routine: Routine, values: NamedValues): Argument[] {
  return routine.parameters.flatMap(parameter => {
    const ownValues = values.flatMap(([name, value]) => (name === parameter.name ? [value] : []))
    const last = ownValues.at(-1)
    if (last === undefined) return []
    return [{ parameter, value: parameter.variadic ? { list: ownValues } : last }]
  })
}

export function callArguments(
  routine: Routine,
  parameters: NamedValues,
  payload: Payload | undefined,
  columns: readonly string[] | undefined,
): CallArguments {
  if (payload === undefined) return { kind: 'values', list: valuesFor(routine, parameters) }
  switch (payload.kind) {
    case 'form':
      return { kind: 'values', list: valuesFor(routine, payload.fields) }
    case 'raw':
      return { kind: 'unnamed', value: payload.bytes, type: payload.type }
    case 'json': {
      const [only] = routine.parameters
      if (only !== undefined && isUnnamed(routine.parameters))
        return { kind: 'unnamed', value: payload.json, type: only.type }
      const keys = payload.keys ?? columns
      const named = routine.parameters.filter(({ name }) => keys === undefined || keys.includes(name))
      const parameters = named.map(parameter => ({
        parameter,
        key: payload.csvKeys?.get(parameter.name) ?? parameter.name,
      }))
      return { kind: 'json', json: payload.json, isArray: payload.isArray, parameters }
    }
  }
}
