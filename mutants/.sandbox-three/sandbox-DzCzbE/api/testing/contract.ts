/** Holds answers to the API's own description: status documented, body of the documented shape and nothing more. */
// @ts-nocheck

import { expect } from 'vitest'
import { z } from 'zod'
import type { App } from '../context.ts'

type Schema = Record<string, unknown>
type Response = { content?: { 'application/json'?: { schema: Schema } }; headers?: Record<string, unknown> }
type Parameter = { name: string; in: string; required?: boolean; schema: Schema }
export type DocumentedOperation = {
  operationId: string
  summary?: string
  description?: string
  tags?: string[]
  parameters?: Parameter[]
  requestBody?: { content: { 'application/json': { schema: Schema } } }
  responses: Record<string, Response>
  security?: unknown[]
}
export type Description = {
  openapi: string
  info: { version: string }
  paths: Record<string, Record<string, DocumentedOperation>>
  components: { schemas: Record<string, Schema>; securitySchemes: Record<string, Schema> }
}

export async function descriptionOf(app: App): Promise<Description> {
  return (await app.inject({ url: '/managed/v1/openapi.json' })).json()
}

/** Answers are open in the description, so that fields can be added; today's must have no others. */
function closed(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(closed)
  if (typeof node !== 'object' || node === null) return node
  const inner = Object.fromEntries(Object.entries(node).map(([key, value]) => [key, closed(value)]))
  const isClosable = 'properties' in inner && !('additionalProperties' in inner)
  return isClosable ? { ...inner, additionalProperties: false } : inner
}

export type Contract = (method: string, url: string, answer: { status: number; body: unknown }) => void

export function contractOf({ paths, components }: Description): Contract {
  const definitions = JSON.parse(
    JSON.stringify(closed(components.schemas)).replaceAll('#/components/schemas/', '#/$defs/'),
  ) as Schema
  const compiled = new Map<string, z.ZodType>()
  const schemaFor = (schema: Schema): z.ZodType => {
    const text = JSON.stringify(closed(schema)).replaceAll('#/components/schemas/', '#/$defs/')
    const known = compiled.get(text) ?? z.fromJSONSchema({ ...JSON.parse(text), $defs: definitions })
    compiled.set(text, known)
    return known
  }
  const templates = Object.keys(paths).map(path => {
    const pattern = new RegExp(`^${path.replaceAll(/[.]/g, '\\.').replaceAll(/\{[^}]+\}/g, '[^/]+')}$`)
    return { path, pattern }
  })
  return (method, url, { status, body }) => {
    const path = url.split('?')[0] ?? ''
    const template = templates.find(({ pattern }) => pattern.test(path))
    const operation = template && paths[template.path]?.[method.toLowerCase()]
    if (operation === undefined) return
    const response = operation.responses[status] ?? operation.responses.default
    expect(response, `${method} ${path} ${status} is documented`).toBeDefined()
    const schema = response?.content?.['application/json']?.schema
    if (schema === undefined) return expect(body).toBe('')
    const checked = schemaFor(schema).safeParse(body)
    expect(checked.error?.issues ?? [], `${method} ${path} ${status}: ${JSON.stringify(body)}`).toEqual([])
  }
}
