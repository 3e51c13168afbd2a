/**
 * The API description (OpenAPI 3.1), made from the routes and their schemas: every shape a named component, every
 * operation with its id, its answers and its refusals, so that clients can be generated from it.
 */
import swagger, { type SwaggerTransform } from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import { z } from 'zod'
import { isRecord } from '../values/record.ts'
import { basePath } from './answers.ts'
import type { App } from './context.ts'
import { type Documentation, type HeaderName, responseHeaders, tags } from './operation.ts'
import { errorShape, queryDefault } from './schemas/common.ts'
import { inputComponents, outputComponents } from './schemas/components.ts'

type JsonSchema = Record<string, unknown>

const componentPath = (id: string): string => `#/components/schemas/${id}`

const isSafeIntegerBound = (key: string, value: unknown): boolean =>
  (key === 'maximum' || key === 'minimum') && Math.abs(Number(value)) === Number.MAX_SAFE_INTEGER

/**
 * Zod's JSON schema in the words of OpenAPI: without what only says "safe integer" or repeats a format as a pattern, a
 * nullable type as one type, the default of a parameter that comes as text (see `queryDefault`). Answers may gain
 * fields in time, so what goes out is not closed.
 */
function tidy(node: unknown, io: 'input' | 'output'): unknown {
  if (Array.isArray(node)) return node.map(inner => tidy(inner, io))
  if (typeof node !== 'object' || node === null) return node
  const result: JsonSchema = {}
  for (const [key, value] of Object.entries(node)) {
    const isIdentity = key === '$schema' || key === '$id' || (key === 'id' && typeof value === 'string')
    const isClosure = io === 'output' && key === 'additionalProperties' && value === false
    if (isIdentity || isClosure || isSafeIntegerBound(key, value) || (key === 'pattern' && 'format' in node)) continue
    if (key === queryDefault) result.default = value
    else result[key] = key === 'example' ? value : tidy(value, io)
  }
  return oneType(result)
}

/** `anyOf` a plain type and null, as the one type that OpenAPI 3.1 writes for it. */
function oneType({ anyOf, ...rest }: JsonSchema): JsonSchema {
  const [plain, nothing] = Array.isArray(anyOf) && anyOf.length === 2 ? anyOf : []
  if (typeof plain?.type !== 'string' || nothing?.type !== 'null')
    return anyOf === undefined ? rest : { ...rest, anyOf }
  return { ...plain, ...rest, type: [plain.type, 'null'] }
}

function componentSchemas(registry: typeof inputComponents, io: 'input' | 'output'): Record<string, JsonSchema> {
  const { schemas } = z.toJSONSchema(registry, { io, uri: componentPath, unrepresentable: 'any' })
  return Object.fromEntries(Object.entries(schemas).map(([id, schema]) => [id, tidy(schema, io) as JsonSchema]))
}

/** A reference where the shape has a name; arrays of named shapes refer to them. */
function schemaOf(shape: z.ZodType, registry: typeof inputComponents, io: 'input' | 'output'): JsonSchema {
  const id = registry.get(shape)?.id
  if (id !== undefined) return { $ref: componentPath(id) }
  if (shape instanceof z.ZodArray) return { type: 'array', items: schemaOf(shape.element as z.ZodType, registry, io) }
  return tidy(z.toJSONSchema(shape, { io, unrepresentable: 'any' }), io) as JsonSchema
}

const headersOf = (names: readonly HeaderName[]) =>
  Object.fromEntries(names.map(name => [name, { type: 'string', description: responseHeaders[name] }]))

const refusals: Record<number, [description: string, headers: HeaderName[]]> = {
  400: ['The request is wrong. The message names the field and the rule.', []],
  401: ['The token is missing or not valid.', ['WWW-Authenticate']],
  403: ['The account may not do this. Where the account itself is the cause, `reason` names it.', []],
  404: ['There is no such object.', []],
  409: ['The object is busy, or is protected.', ['Retry-After']],
  429: ['Too many requests.', ['Retry-After']],
  503: ['The API cannot serve the request at the moment.', ['Retry-After']],
}

function responsesOf({ success, errors = [], open }: Documentation): JsonSchema {
  const { status, description, shape, mediaType = 'application/json', headers = [] } = success
  const body = shape && { content: { [mediaType]: { schema: schemaOf(shape, outputComponents, 'output') } } }
  const answer = { description, headers: headersOf(['X-Request-Id', ...headers]), ...(body ?? { type: 'null' }) }
  const statuses = open ? errors : [...errors, 401, 403, 429, 503]
  const error = { 'application/json': { schema: { $ref: componentPath('Error') } } }
  const refused = [...statuses].sort().map(code => {
    const [text = '', names = []] = refusals[code] ?? []
    return [code, { description: text, headers: headersOf(['X-Request-Id', ...names]), content: error }]
  })
  return {
    [status]: answer,
    ...Object.fromEntries(refused),
    default: { description: 'Any other error.', content: error },
  }
}

const requestHeaders = {
  'Idempotency-Key':
    'Makes it safe to send the request again: for 24 hours, the same request with the same key does nothing more and gets the first answer.',
  Prefer: '`wait=N` holds the answer until the object has settled, for at most N seconds. 60 is the most.',
} as const

/** Ids of operations whose body can be left out. */
const bodiless = new Set<string>()

/** A body that can be left out has the shape that it has where it is not. */
const required = (shape: z.ZodType): z.ZodType =>
  shape instanceof z.ZodOptional ? (shape.unwrap() as z.ZodType) : shape

const transform: SwaggerTransform = ({ schema, url }) => {
  const documentation = schema?.documentation
  if (schema?.hide) return { schema: { hide: true }, url }
  if (schema === undefined || documentation === undefined) throw new Error(`the route ${url} is not documented`)
  const { operationId, tag, summary, description, takes, open } = documentation
  const inputOf = (shape: unknown) =>
    shape instanceof z.ZodType ? schemaOf(required(shape), inputComponents, 'input') : undefined
  const parts = {
    params: inputOf(schema.params),
    querystring: inputOf(schema.querystring),
    body: inputOf(schema.body),
    headers: takes && {
      type: 'object',
      properties: Object.fromEntries(takes.map(name => [name, { type: 'string', description: requestHeaders[name] }])),
    },
  }
  if (schema.body instanceof z.ZodOptional) bodiless.add(operationId)
  const given = Object.fromEntries(Object.entries(parts).filter(([, value]) => value !== undefined))
  const facts = { operationId, summary, description: description ?? `${summary}.`, tags: [tag] }
  return {
    schema: { ...facts, ...given, response: responsesOf(documentation), ...(open ? { security: [] } : {}) },
    url,
  }
}

const about = `The control plane of Espalier: managed Postgres with branches, on Kubernetes.

Every answer has an X-Request-Id. Every error is \`{code, message, reason?}\`. A write that goes on after its answer has an
X-Task-Id, and the path of that task in Location. Unknown fields and query parameters are refused.`

/** The framework calls every body required; one that can be left out is not. */
function allowNoBody(method: unknown): void {
  if (!isRecord(method) || !bodiless.has(String(method.operationId)) || !isRecord(method.requestBody)) return
  method.requestBody.required = false
}

/** Collects the routes added after it. */
export async function describeRoutes(app: App): Promise<void> {
  // Naming it here keeps the shape in the description even where nothing else refers to it.
  outputComponents.add(errorShape, { id: 'Error' })
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Espalier control plane', version: '1.0.0', description: about, license: { name: 'Apache-2.0' } },
      tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
      security: [{ bearer: [] }],
      components: {
        securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } },
      },
    },
    stripBasePath: false,
    transform,
    transformObject: document => {
      if (!('openapiObject' in document)) return document.swaggerObject
      const schemas = { ...componentSchemas(inputComponents, 'input'), ...componentSchemas(outputComponents, 'output') }
      Object.assign(document.openapiObject.components ?? {}, { schemas })
      for (const methods of Object.values(document.openapiObject.paths ?? {}))
        for (const method of Object.values(methods ?? {})) allowNoBody(method)
      return document.openapiObject
    },
  })
}

/** The description as a page to browse, at /docs; everything it loads comes from here. */
export async function addDocumentationPage(app: App): Promise<void> {
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    uiConfig: {
      url: `${basePath}/openapi.json`,
      validatorUrl: null,
      deepLinking: true,
      tryItOutEnabled: true,
      // Without the bar at the top, which is for opening the descriptions of other services.
      layout: 'BaseLayout',
    },
    theme: { title: 'Espalier API' },
    staticCSP:
      "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; script-src 'self'; base-uri 'none'; frame-ancestors 'none'; object-src 'none'",
  })
}
