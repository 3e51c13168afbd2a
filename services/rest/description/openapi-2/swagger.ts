/**
 * Types for the used subset of the OpenAPI 2.0 (Swagger) document at the root path. Values are plain data for
 * JSON.stringify, which omits undefined fields. Source: OpenAPI Specification 2.0; PostgREST docs "OpenAPI".
 */

export type DataType = 'string' | 'boolean' | 'integer' | 'number' | 'array'

export type Reference = { readonly $ref: string }

/** Without a `type`, the value is any JSON. */
export type Items = { readonly type?: DataType }

export type Property = {
  readonly type?: DataType
  readonly format: string
  readonly description?: string
  readonly default?: string | number | boolean
  readonly enum?: readonly string[]
  readonly maxLength?: number
  readonly items?: Items
}

export type ObjectSchema = {
  readonly type: 'object'
  readonly description?: string
  readonly properties?: Readonly<Record<string, Property>>
  readonly required?: readonly string[]
}

export type Parameter =
  | {
      readonly in: 'body'
      readonly name: string
      readonly description?: string
      readonly required: boolean
      readonly schema: Reference | ObjectSchema
    }
  | {
      readonly in: 'query' | 'header'
      readonly name: string
      readonly description?: string
      readonly required: boolean
      readonly type: DataType
      readonly format?: string
      readonly default?: string
      readonly enum?: readonly string[]
      readonly items?: { readonly type: DataType; readonly format: string }
      readonly collectionFormat?: 'multi'
    }

type Response = {
  readonly description: string
  readonly schema?: { readonly type: 'array'; readonly items: Reference }
}

export type Operation = {
  readonly tags: readonly string[]
  readonly summary?: string
  readonly description?: string
  readonly produces?: readonly string[]
  readonly parameters?: readonly (Reference | Parameter)[]
  readonly responses: Readonly<Record<string, Response>>
}

export type PathItem = {
  readonly get?: Operation
  readonly post?: Operation
  readonly patch?: Operation
  readonly delete?: Operation
}

export type SwaggerDocument = {
  readonly swagger: '2.0'
  readonly info: { readonly title: string; readonly description: string; readonly version: string }
  readonly host?: string
  readonly basePath: string
  readonly schemes: readonly ('http' | 'https')[]
  readonly consumes: readonly string[]
  readonly produces: readonly string[]
  readonly paths: Readonly<Record<string, PathItem>>
  readonly definitions: Readonly<Record<string, ObjectSchema>>
  readonly parameters: Readonly<Record<string, Parameter>>
  readonly securityDefinitions?: Readonly<
    Record<
      string,
      { readonly type: 'apiKey'; readonly name: string; readonly in: 'header'; readonly description: string }
    >
  >
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[]
  readonly externalDocs: { readonly description: string; readonly url: string }
}

const escapes: Readonly<Record<string, string>> = { '~': '~0', '/': '~1', '%': '%25' }

/**
 * A reference to a member of the document's `definitions` or `parameters`. As in PostgREST, it escapes only characters
 * that have a meaning in a JSON pointer (RFC 6901) or in its URI fragment.
 */
export function reference(place: 'definitions' | 'parameters', name: string): Reference {
  return { $ref: `#/${place}/${name.replace(/[~/%]/g, character => escapes[character] ?? character)}` }
}

/** A list. Undefined if the list is empty, because the specification does not allow most lists to be empty. */
export function unlessEmpty<T>(list: readonly T[]): readonly T[] | undefined {
  return list.length === 0 ? undefined : list
}
