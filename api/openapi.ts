/**
 * The API description (OpenAPI 3.1), generated from the routes and their schemas. Every shape is a named component.
 * Every operation has its id, its responses and its errors, so that clients can be generated from the description.
 */
import swagger, { type SwaggerTransform } from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import { z } from 'zod'
import { isRecord } from '../values/record.ts'
import { basePath } from './answers.ts'
import type { App } from './context.ts'
import { componentSchemas, schemaOf } from './description/json-schema.ts'
import { parametersOf } from './description/parameters.ts'
import { responseComponents, responsesOf } from './description/responses.ts'
import { type Documentation, tags } from './operation.ts'
import { errorShape } from './schemas/common.ts'
import { outputComponents } from './schemas/components.ts'

/** An optional body has the same shape as a required one. */
const required = (shape: z.ZodType): z.ZodType =>
  shape instanceof z.ZodOptional ? (shape.unwrap() as z.ZodType) : shape

const transform: SwaggerTransform = ({ schema, url }) => {
  const documentation = schema?.documentation
  if (schema?.hide) return { schema: { hide: true }, url }
  if (schema === undefined || documentation === undefined) throw new Error(`the route ${url} is not documented`)
  const { operationId, tag, summary, description, open } = documentation
  const body = schema.body instanceof z.ZodType ? { body: schemaOf(required(schema.body), 'input') } : {}
  const facts = { operationId, summary, description: description ?? `${summary}.`, tags: [tag] }
  return { schema: { ...facts, ...body, ...(open ? { security: [] } : {}) }, url }
}

const about = `The control plane of Espalier: managed Postgres with branches, on Kubernetes.

Every response has an X-Request-Id. Every error is \`{code, message, reason?}\`. A write that continues after its response has an
X-Task-Id, and the path of that task in Location. Unknown fields and query parameters are refused.

A read of one object has an ETag. With If-None-Match it returns 304 while the object is unchanged. A PATCH or DELETE with
If-Match is applied only if the object is unchanged. RateLimit contains the remaining requests. Retry-After is present if waiting helps.`

type Described = { documentation: Documentation; parameters: object[]; bodyIsOptional: boolean }

/**
 * Adds parts that the framework cannot express: parameters and responses that refer to components, and optional bodies.
 */
function complete(operation: unknown, method: string, described: ReadonlyMap<string, Described>): void {
  if (!isRecord(operation)) return
  const found = described.get(String(operation.operationId))
  if (found === undefined) return
  const { documentation, parameters, bodyIsOptional } = found
  if (parameters.length > 0) operation.parameters = parameters
  operation.responses = responsesOf(documentation, method.toUpperCase())
  if (isRecord(operation.requestBody)) operation.requestBody.required = !bodyIsOptional
}

/** Collects the routes that are added after this call. */
export async function describeRoutes(app: App): Promise<void> {
  // Names the error shape, so that it stays in the description even if nothing else refers to it.
  outputComponents.add(errorShape, { id: 'Error' })
  const described = new Map<string, Described>()
  app.addHook('onRoute', ({ schema }) => {
    if (schema?.documentation === undefined) return
    const { documentation, params, querystring, body } = schema
    described.set(documentation.operationId, {
      documentation,
      parameters: parametersOf(documentation, params, querystring),
      bodyIsOptional: body instanceof z.ZodOptional,
    })
  })
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Espalier control plane',
        version: '1.0.0',
        description: about,
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } as { name: string },
      },
      servers: [{ url: '/', description: 'The installation that this description was read from.' }],
      tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
      security: [{ bearer: [] }],
      components: {
        securitySchemes: {
          bearer: {
            type: 'http',
            scheme: 'bearer',
            bearerFormat: 'JWT',
            description: 'An access token of the issuer that the installation trusts.',
          },
        },
      },
    },
    stripBasePath: false,
    transform,
    transformObject: document => {
      if (!('openapiObject' in document)) return document.swaggerObject
      const { components, paths } = document.openapiObject
      Object.assign(components ?? {}, { schemas: componentSchemas(), ...responseComponents })
      for (const methods of Object.values(paths ?? {}))
        for (const [method, operation] of Object.entries(methods ?? {})) complete(operation, method, described)
      return document.openapiObject
    },
  })
}

/** The description as a documentation page at /docs. The API itself serves everything that the page loads. */
export async function addDocumentationPage(app: App): Promise<void> {
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    uiConfig: {
      url: `${basePath}/openapi.json`,
      validatorUrl: null,
      deepLinking: true,
      tryItOutEnabled: true,
      // Without the top bar, with which users could open the descriptions of other services.
      layout: 'BaseLayout',
    },
    theme: { title: 'Espalier API' },
    staticCSP:
      "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; script-src 'self'; base-uri 'none'; frame-ancestors 'none'; object-src 'none'",
  })
}
