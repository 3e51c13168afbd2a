/** Selects the response's media type among the types that the client accepts. */

import type { MediaHandler, QualifiedName, SchemaCache } from '../../schema-cache/types.ts'
import { notAcceptable } from '../errors/catalogue.ts'
import { type MediaType, mediaTypeName, namesOf } from '../parse/media.ts'
import type { BodyPlan } from './types.ts'

export type MediaRules = {
  readonly cache: SchemaCache
  /** The relation or function that the request reads. */
  readonly subject: QualifiedName
  /** Whether the request selects full rows, because a relation's handler requires them. */
  readonly completeRows: boolean
  readonly plansEnabled: boolean
  readonly ndjsonEnabled: boolean
}

type Made = Pick<BodyPlan, 'shape' | 'mediaType'>

const json: Made = { shape: { kind: 'json', stripNulls: false }, mediaType: { kind: 'json' } }

/** The formats of every relation and function. */
const builtIn: Record<string, Made> = {
  'application/json': json,
  '*/*': json,
  'text/csv': { shape: { kind: 'csv' }, mediaType: { kind: 'named', name: 'text/csv' } },
  'application/geo+json': { shape: { kind: 'geojson' }, mediaType: { kind: 'named', name: 'application/geo+json' } },
}

const ndjsonName = 'application/x-ndjson'
const ndjson: Made = { shape: { kind: 'ndjson' }, mediaType: { kind: 'named', name: ndjsonName } }

const handled = (handler: MediaHandler): Made => ({
  shape: { kind: 'handler', handler },
  mediaType:
    handler.mediaType === '*/*'
      ? { kind: 'any' }
      : handler.mediaType === 'application/json'
        ? { kind: 'json' }
        : { kind: 'named', name: handler.mediaType },
})

const isSame = (one: QualifiedName | undefined, other: QualifiedName) =>
  one !== undefined && one.schema === other.schema && one.name === other.name

function lookUp(name: string, { cache, subject, completeRows, ndjsonEnabled }: MediaRules): Made | undefined {
  const own = completeRows ? cache.mediaHandlers.filter(handler => isSame(handler.subject, subject)) : []
  const handler =
    own.find(({ mediaType }) => mediaType === '*/*') ??
    own.find(({ mediaType }) => mediaType === name) ??
    cache.mediaHandlers.find(one => one.subject === undefined && one.mediaType === name)
  if (handler !== undefined) return handled(handler)
  if (name === ndjsonName) return ndjsonEnabled ? ndjson : undefined
  return Object.hasOwn(builtIn, name) ? builtIn[name] : undefined
}

function make(type: MediaType, rules: MediaRules): BodyPlan | undefined {
  switch (type.kind) {
    // A type with one of the service's own parameters has no other handler.
    case 'object':
      return {
        shape: { kind: 'object', stripNulls: type.stripNulls },
        mediaType: type,
        explain: undefined,
        singular: true,
      }
    case 'array':
      return { shape: { kind: 'json', stripNulls: true }, mediaType: type, explain: undefined, singular: false }
    case 'plan': {
      const of = rules.plansEnabled ? make(type.of, rules) : undefined
      return of && { ...of, mediaType: type, explain: type }
    }
    default: {
      const made = lookUp(mediaTypeName(type), rules)
      return made && { ...made, explain: undefined, singular: false }
    }
  }
}

/** The best accepted type that is available. @throws RST107 if there is none */
export function negotiate(accept: readonly MediaType[], rules: MediaRules): BodyPlan {
  for (const type of accept) {
    const made = make(type, rules)
    if (made !== undefined) return made
  }
  throw notAcceptable(namesOf(accept))
}
