/**
 * Checks responses against the API's own description: the status must be documented, and the body must have the
 * documented shape without other fields.
 */
import { expect } from 'vitest'
import { z } from 'zod'
import type { App } from '../context.ts'

type Schema = Record<string, unknown>
type Reference = { $ref: string }
type Header = { description: string; schema: Schema; required?: boolean }
type Response = {
  description: string
  content?: Record<string, { schema: Schema }>
  headers?: Record<string, Reference>
}
type Parameter = { name: string; in: string; description: string; required: boolean; schema: Schema }
export type DocumentedOperation = {
  operationId: string
  summary?: string
  description?: string
  tags?: string[]
  parameters?: Parameter[]
  requestBody?: { content: { 'application/json': { schema: Schema } } }
  responses: Record<string, Response | Reference>
  security?: unknown[]
}
export type Description = {
  openapi: string
  info: { version: string }
  paths: Record<string, Record<string, DocumentedOperation>>
  servers: { url: string }[]
  components: {
    schemas: Record<string, Schema>
    responses: Record<string, Response>
    headers: Record<string, Header>
    securitySchemes: Record<string, Schema>
  }
}

export async function descriptionOf(app: App): Promise<Description> {
  return (await app.inject({ url: '/managed/v1/openapi.json' })).json()
}

/** Returns an operation's response for a status, also if the response is a component. */
export function responseOf(
  { components }: Description,
  { responses }: DocumentedOperation,
  status: string | number,
): Response | undefined {
  const found = responses[status]
  return found && '$ref' in found ? components.responses[found.$ref.split('/').at(-1) ?? ''] : found
}

/** Keywords that zod does not support, and that no response uses. */
const unread = ['dependentRequired', 'if', 'then', 'not']

/** The named shapes in zod's format. */
export function definitionsOf({ components }: Description): Record<string, Schema> {
  const text = JSON.stringify(closed(components.schemas), (key, value) => (unread.includes(key) ? undefined : value))
  return JSON.parse(text.replaceAll('#/components/schemas/', '#/$defs/'))
}

/** In the description, responses are open, so that fields can be added. Today's responses must have no other fields. */
function closed(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(closed)
  if (typeof node !== 'object' || node === null) return node
  const inner = Object.fromEntries(Object.entries(node).map(([key, value]) => [key, closed(value)]))
  const isClosable = 'properties' in inner && !('additionalProperties' in inner)
  return isClosable ? { ...inner, additionalProperties: false } : inner
}

/** Errors that no operation documents itself: errors of methods and of HTTP, and internal errors. */
const ofAnyRequest = [405, 408, 417, 431, 500]

export type Contract = (method: string, url: string, answer: { status: number; body: unknown }) => void

export function contractOf(description: Description): Contract {
  const { paths } = description
  const definitions = definitionsOf(description)
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
    const named = ofAnyRequest.includes(status) ? 'default' : status
    const response = responseOf(description, operation, named)
    expect(response, `${method} ${path} ${status} is documented`).toBeDefined()
    const lines = response?.content?.['application/x-ndjson']?.schema
    if (lines !== undefined) {
      expect(body).toMatch(/^$|\n$/)
      const each = String(body).split('\n').slice(0, -1)
      for (const line of each)
        expect(schemaFor(lines).safeParse(JSON.parse(line)).error?.issues ?? [], line).toEqual([])
      return
    }
    const schema = response?.content?.['application/json']?.schema
    if (schema === undefined) return expect(body).toBe('')
    const checked = schemaFor(schema).safeParse(body)
    expect(checked.error?.issues ?? [], `${method} ${path} ${status}: ${JSON.stringify(body)}`).toEqual([])
  }
}
