/**
 * Prints a schema's description as an OpenAPI 3.1 document. It has the requests for each relation and function, with
 * parameters and results. Programs generate clients from it. Pure.
 */
import type { Column, Routine, Table } from '../../../schema-cache/types.ts'
import type { Catalog } from '../catalog.ts'
import { type ApiDescription, filteredColumns, resultOf, splitComment } from '../model.ts'
import {
  componentName,
  insertName,
  rowName,
  type Schema,
  SchemaWriter,
  schemaReference,
  updateName,
} from './schemas.ts'

type OpenApi31Input = ApiDescription & {
  readonly catalog: Catalog
  readonly ndjsonEnabled: boolean
  /** The cursor parameter; undefined if cursors are disabled. */
  readonly keysetParameter: string | undefined
  /** The batch path; undefined if batches are disabled. */
  readonly batchPath: string | undefined
}

type Operation = Readonly<Record<string, unknown>>

const parameterReference = (name: string): Schema => ({ $ref: `#/components/parameters/${name}` })
const responseReference = (name: string): Schema => ({ $ref: `#/components/responses/${name}` })

const queryParameter = (name: string, description: string, schema: Schema = { type: 'string' }): Schema => ({
  name,
  in: 'query',
  description,
  schema,
})
const integer = { type: 'integer', minimum: 0 }

/** By name in the components. */
const sharedParameters: Readonly<Record<string, Schema>> = {
  select: queryParameter('select', 'Columns, and relations to embed: `title,authors(name)`.'),
  order: queryParameter('order', 'Columns to order by: `pages.desc.nullslast,id`.'),
  limit: queryParameter('limit', 'Most rows.', integer),
  offset: queryParameter('offset', 'Rows to skip before the first.', integer),
  columns: queryParameter('columns', 'Keys of the body to write; others are ignored.'),
  on_conflict: queryParameter('on_conflict', 'Unique columns by which an upsert finds existing rows.'),
  prefer: {
    name: 'Prefer',
    in: 'header',
    description: 'Comma-separated preferences: `return=representation`, `count=exact`, `handling=strict` and others.',
    schema: { type: 'string' },
  },
  range: { name: 'Range', in: 'header', description: 'Rows from 0: `0-9`.', schema: { type: 'string' } },
}

const json = (schema: Schema) => ({ 'application/json': { schema } })

const sharedResponses: Readonly<Record<string, Schema>> = {
  refused: {
    description: 'The request is refused because of its form, its credentials, or an error of the database.',
    content: json(schemaReference('Error..body')),
  },
  failed: { description: 'The service or its database is unavailable.', content: json(schemaReference('Error..body')) },
}
const failures = { '4XX': responseReference('refused'), '5XX': responseReference('failed') }

const errorSchema: Schema = {
  type: 'object',
  description: 'The error message.',
  properties: {
    code: { type: 'string', description: 'An SQLSTATE, or a code of the service that begins with RST.' },
    message: { type: 'string' },
    details: { description: 'Further details, if any.' },
    hint: { type: ['string', 'null'] },
  },
  required: ['code', 'message'],
}

const cursorName = 'cursor..parameter'
const cursorParameter = (name: string): Schema =>
  queryParameter(
    name,
    'Requests keyset pagination: empty for the first page; the `Link` header of each page contains the next cursor.',
  )

const batchSchemas: Readonly<Record<string, Schema>> = {
  'Batch..request': {
    type: 'object',
    properties: {
      method: { type: 'string', enum: ['GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE'] },
      path: { type: 'string', description: 'With its query, encoded as in a URL.' },
      headers: { type: 'object', additionalProperties: { type: 'string' } },
      body: { description: 'JSON, or a string if `content-type` is not JSON.' },
    },
    required: ['method', 'path'],
    additionalProperties: false,
  },
  'Batch..answer': {
    type: 'object',
    properties: {
      status: { type: 'integer' },
      headers: { type: 'object', additionalProperties: { type: ['string', 'array'], items: { type: 'string' } } },
      body: { description: 'JSON, or a string.' },
      encoding: { type: 'string', description: '`base64` for a binary body.' },
    },
    required: ['status', 'headers', 'body'],
  },
}

const filterParameter = (table: Table, { name, description }: Column): [string, Schema] => [
  componentName('filter', table.name, name),
  queryParameter(name, `${description ?? 'A filter'}: an operator and a value, \`eq.1\` or \`in.(1,2)\`.`),
]

/** The comment on a database object. Without a comment, the object's kind. */
function descriptionOf(comment: string | null, summary: string): { summary: string; description?: string } {
  const parts = splitComment(comment)
  if (parts === null) return { summary }
  return {
    summary: parts.summary === '' ? summary : parts.summary,
    ...(parts.description === '' ? {} : { description: parts.description }),
  }
}

class DocumentWriter {
  readonly #input: OpenApi31Input
  readonly #schemas: SchemaWriter

  constructor(input: OpenApi31Input) {
    this.#input = input
    this.#schemas = new SchemaWriter(input, input.catalog)
  }

  document(): Schema {
    const { schema, proxyUri, securityActive, version, keysetParameter, batchPath } = this.#input
    const { tables } = schema
    const routines = Map.groupBy(schema.routines, ({ name }) => name)
    const title = splitComment(schema.comment)
    const bearer = { bearer: [] }
    return {
      openapi: '3.1.0',
      info: {
        title: title?.summary || `Schema ${schema.name}`,
        ...(title?.description ? { description: title.description } : {}),
        version,
      },
      servers: [{ url: proxyUri === undefined ? '/' : proxyUri.replace(/\/$/, '') }],
      security: securityActive ? [bearer] : [{}, bearer],
      tags: [
        { name: '(root)', description: 'Components of the service itself.' },
        ...tables.map(table => ({
          name: table.name,
          description: splitComment(table.description)?.summary || `Relation ${table.name}`,
        })),
        ...(routines.size === 0 ? [] : [{ name: '(rpc)', description: 'Functions' }]),
      ],
      paths: Object.fromEntries([
        ['/', this.#root()],
        ...(batchPath === undefined ? [] : [[batchPath, this.#batch()] as const]),
        ...tables.map(table => [`/${encodeURIComponent(table.name)}`, this.#table(table)]),
        ...[...routines].map(([name, list]) => [`/rpc/${encodeURIComponent(name)}`, this.#function(name, list)]),
      ]),
      components: {
        schemas: Object.fromEntries([
          ...tables.flatMap(table => this.#schemas.ofTable(table)),
          ['Error..body', errorSchema],
          ...(batchPath === undefined ? [] : Object.entries(batchSchemas)),
        ]),
        parameters: {
          ...sharedParameters,
          ...(keysetParameter === undefined ? {} : { [cursorName]: cursorParameter(keysetParameter) }),
          ...Object.fromEntries(
            tables.flatMap(table => filteredColumns(table).map(column => filterParameter(table, column))),
          ),
        },
        responses: sharedResponses,
        securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } },
      },
    }
  }

  #root(): Schema {
    return {
      get: {
        operationId: 'describe',
        tags: ['(root)'],
        summary: 'This document',
        responses: {
          200: { description: 'The document', content: { 'application/openapi+json': { schema: { type: 'object' } } } },
          ...failures,
        },
      },
    }
  }

  #batch(): Schema {
    const list = (name: string) => json({ type: 'array', items: schemaReference(name) })
    return {
      post: {
        operationId: 'batch',
        tags: ['(root)'],
        summary: 'Run several requests in one transaction',
        requestBody: { required: true, content: list('Batch..request') },
        responses: {
          200: { description: 'The response of each request', content: list('Batch..answer') },
          ...failures,
        },
      },
    }
  }

  #rows(table: Table): Schema {
    const row = schemaReference(rowName(table))
    return {
      'application/json': { schema: { type: 'array', items: row } },
      'application/vnd.pgrst.object+json': { schema: row },
      'text/csv': { schema: { type: 'string' } },
      ...(this.#input.ndjsonEnabled ? { 'application/x-ndjson': { schema: { type: 'string' } } } : {}),
    }
  }

  #table(table: Table): Schema {
    const about = (method: string) => ({
      operationId: componentName(method, table.name),
      tags: [table.name],
    })
    const filters = filteredColumns(table).map(column => parameterReference(filterParameter(table, column)[0]))
    const shared = (...names: string[]) => names.map(parameterReference)
    const paging = this.#input.keysetParameter === undefined ? [] : [cursorName]
    const content = this.#rows(table)
    const written = {
      200: { description: 'The updated rows, if requested with `return=representation`', content },
      204: { description: 'Done' },
      ...failures,
    }
    const body = (schema: Schema) => ({ required: true, content: json(schema) })
    const insert = schemaReference(insertName(table))
    const get: Operation = {
      ...about('read'),
      ...descriptionOf(table.description, `Read ${table.name}`),
      parameters: [...filters, ...shared('select', 'order', 'limit', 'offset', 'prefer', 'range', ...paging)],
      responses: {
        200: { description: 'Rows', content },
        206: { description: 'Some of the rows, if `count` is requested', content },
        ...failures,
      },
    }
    return {
      get,
      ...(table.insertable
        ? {
            post: {
              ...about('insert'),
              summary: `Insert into ${table.name}`,
              parameters: shared('select', 'columns', 'on_conflict', 'prefer'),
              requestBody: body({ oneOf: [insert, { type: 'array', items: insert }] }),
              responses: {
                200: { description: 'All rows existed and have been replaced', content },
                201: { description: 'Inserted; with the rows, if requested with `return=representation`', content },
                ...failures,
              },
            },
          }
        : {}),
      ...(table.updatable
        ? {
            patch: {
              ...about('update'),
              summary: `Update ${table.name}`,
              parameters: [...filters, ...shared('select', 'columns', 'prefer')],
              requestBody: body(schemaReference(updateName(table))),
              responses: written,
            },
          }
        : {}),
      ...(table.deletable
        ? {
            delete: {
              ...about('delete'),
              summary: `Delete from ${table.name}`,
              parameters: [...filters, ...shared('select', 'prefer')],
              responses: written,
            },
          }
        : {}),
    }
  }

  /** All functions with the same name share its path. */
  #function(name: string, overloads: readonly Routine[]): Schema {
    const [first] = overloads
    if (first === undefined) return {}
    const about = { tags: ['(rpc)'], ...descriptionOf(first.description, `Call ${name}`) }
    const responses = this.#responses(overloads)
    const bodies = overloads.map(routine => this.#schemas.ofArguments(routine))
    const post: Operation = {
      operationId: componentName('call', name),
      ...about,
      parameters: [parameterReference('prefer')],
      requestBody: { required: true, content: json(oneOf(bodies)) },
      responses,
    }
    if (overloads.every(({ volatility }) => volatility === 'volatile')) return { post }
    return {
      get: {
        operationId: componentName('get', name),
        ...about,
        parameters: [...this.#arguments(overloads), parameterReference('prefer')],
        responses,
      },
      post,
    }
  }

  /** An argument that one overload requires may be optional in another. */
  #arguments(overloads: readonly Routine[]): Schema[] {
    const byName = Map.groupBy(
      overloads.flatMap(({ parameters }) => parameters).filter(({ name }) => name !== ''),
      ({ name }) => name,
    )
    return [...byName].map(([name, list]) => {
      const isRequired = list.length === overloads.length && list.every(({ required }) => required)
      const isList = list.some(({ variadic }) => variadic)
      // In a GET, every value is text, and Postgres parses it.
      const schema = isList ? { type: 'array', items: { type: 'string' } } : { type: 'string' }
      const types = [...new Set(list.map(({ type }) => type))].join(' or ')
      return { name, in: 'query', required: isRequired, description: `Postgres: ${types}`, schema }
    })
  }

  #responses(overloads: readonly Routine[]): Schema {
    const answers = overloads.filter(({ returnsVoid }) => !returnsVoid)
    const schemas = answers.map(routine => this.#result(routine))
    return {
      ...(schemas.length === 0 ? {} : { 200: { description: 'The result', content: json(oneOf(schemas)) } }),
      ...(answers.length < overloads.length ? { 204: { description: 'No result' } } : {}),
      ...failures,
    }
  }

  #result(routine: Routine): Schema {
    const result = resultOf(this.#input.catalog, routine)
    const one =
      result.kind === 'type'
        ? this.#schemas.type(result.type)
        : {
            type: 'object',
            properties: Object.fromEntries(result.columns.map(({ name, type }) => [name, this.#schemas.type(type)])),
          }
    return routine.returnsSet ? { type: 'array', items: one } : one
  }
}

/** One schema that allows any of several, without duplicates. */
function oneOf(schemas: readonly Schema[]): Schema {
  const different = [...new Map(schemas.map(schema => [JSON.stringify(schema), schema])).values()]
  const [only] = different
  return different.length === 1 && only !== undefined ? only : { anyOf: different }
}

/** The document, for JSON.stringify. */
export const renderOpenApi31 = (input: OpenApi31Input): Schema => new DocumentWriter(input).document()
