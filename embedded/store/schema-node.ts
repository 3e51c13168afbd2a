/** A structural schema for validation, defaults and apply; `schema.ts` builds it from a definition. */
import type { ParseResult } from '@marcbachmann/cel-js'
import type { CelRule } from '../../crds/kind.ts'
import type { JsonValue } from './json.ts'

export const types = ['object', 'array', 'string', 'integer', 'number', 'boolean'] as const
type SchemaType = (typeof types)[number]

export const limitNames = [
  'minimum',
  'maximum',
  'minLength',
  'maxLength',
  'minItems',
  'maxItems',
  'minProperties',
  'maxProperties',
] as const
export type Limits = { readonly [name in (typeof limitNames)[number]]?: number }

export type CompiledRule = {
  readonly rule: CelRule
  /** A rule about `oldSelf` runs only if there is an old value. */
  readonly transition: boolean
  readonly run: ParseResult
}

export type SchemaNode = {
  readonly type: SchemaType | undefined
  readonly intOrString: boolean
  readonly nullable: boolean
  readonly preserveUnknown: boolean
  readonly required: readonly string[]
  readonly properties: ReadonlyMap<string, SchemaNode>
  /** The schema of a map's values. */
  readonly values: SchemaNode | undefined
  readonly items: SchemaNode | undefined
  readonly enum: readonly JsonValue[] | undefined
  readonly pattern: { source: string; expression: RegExp } | undefined
  readonly format: string | undefined
  readonly limits: Limits
  readonly default: JsonValue | undefined
  readonly listType: 'atomic' | 'set' | 'map'
  readonly listKeys: readonly string[]
  /** A map that belongs completely to the manager that applies it. */
  readonly atomicMap: boolean
  readonly rules: readonly CompiledRule[]
  /** Whether this node or a node below it has a rule about `oldSelf`. Then unchanged values are checked too. */
  readonly hasTransitions: boolean
  /** Whether this node or a node below it has a default. */
  readonly hasDefaults: boolean
}
