/** Requests to the services of a database, and the answer, as the console's "Try it" sends and shows them. */
import { z } from 'zod'
import { ragPipeline } from '../../crds/index.ts'
import { input, output } from '../schemas/components.ts'

const longestBody = 65_536
const methods = ['GET', 'POST', 'PATCH', 'DELETE'] as const

export const restTry = input(
  'RestTryInput',
  z
    .strictObject({
      method: z.enum(methods).describe('The method.'),
      path: z
        .string()
        .max(2000)
        .regex(/^[\x21-\x22\x24-\x3e\x40-\x7e]*$/, 'must be percent-encoded ASCII, without ? and #')
        .describe('The path behind the address of the service, percent-encoded, for example `films` or `rpc/add`.'),
      query: z
        .string()
        .max(8000)
        .regex(/^[\x21-\x22\x24-\x7e]*$/, 'must be percent-encoded ASCII, without #')
        .default('')
        .describe('The query, percent-encoded, for example `select=id&limit=10`.'),
      body: z.string().max(longestBody).optional().describe('The body of POST and PATCH, as JSON text.'),
      token: z
        .string()
        .max(4096)
        .regex(/^[A-Za-z0-9._~+/=-]+$/, 'must be a bearer token, for example a JWT')
        .meta({ writeOnly: true })
        .optional()
        .describe(
          'The JWT to send. Omitted: the service answers as its role for requests without a token. It is not stored.',
        ),
    })
    .meta({
      description: 'A request to the `rest` service.',
      example: { method: 'GET', path: 'films', query: 'select=id,title&limit=10' },
    })
    .superRefine(({ method, body }, context) => {
      if (body !== undefined && method !== 'POST' && method !== 'PATCH')
        context.addIssue({ code: 'custom', path: ['body'], message: 'is for POST and PATCH only' })
    }),
)
export type RestTry = z.output<typeof restTry>

const tooLong = `must be at most ${longestBody} characters of JSON, and must not nest too deep`

/** Values that nest too deep can be parsed, but not written. */
function fits(value: object): boolean {
  try {
    return JSON.stringify(value).length <= longestBody
  } catch (error) {
    if (error instanceof RangeError) return false
    throw error
  }
}

export const mcpTry = input(
  'MCPTryInput',
  z
    .strictObject({
      tool: z.string().min(1).max(128).describe('The name of the tool.'),
      arguments: z
        .record(z.string(), z.unknown())
        .refine(fits, tooLong)
        .optional()
        .describe('Its arguments. Omitted: none. In JSON, their names have no backslash, so no escaped character.'),
    })
    .meta({
      description: 'A call of a tool of the `mcp` service.',
      example: { tool: 'query_database', arguments: { query: 'SELECT 1' } },
    }),
)
export type McpTry = z.output<typeof mcpTry>

export const ragTry = input(
  'RAGTryInput',
  z
    .strictObject({
      pipeline: ragPipeline.shape.name.describe('The name of the pipeline.'),
      query: z.string().min(1).max(32_000).describe('The question.'),
    })
    .meta({
      description: 'A question to the `rag` service.',
      example: { pipeline: 'documents', query: 'How many days of leave do I have?' },
    }),
)
export type RagTry = z.output<typeof ragTry>

export const tryAnswer = output(
  'ServiceAnswer',
  z
    .strictObject({
      status: z.int().describe("The status of the service's response."),
      content_type: z.string().optional().describe('The type of the body. Absent if the response has none.'),
      body: z
        .string()
        .describe(
          'The body as text, at most 256 KiB. Of `mcp`: the result of the tool as JSON, or `{"error"}` with the error of JSON-RPC.',
        ),
      truncated: z
        .boolean()
        .describe('Whether the body is longer, or had not ended after 60 seconds. Then it is as the service sent it.'),
      milliseconds: z.int().describe('The time from the request until the end of the body.'),
    })
    .meta({
      description: "A service's response.",
      example: {
        ...{ status: 200, content_type: 'application/json; charset=utf-8', body: '[{"id":1}]' },
        ...{ truncated: false, milliseconds: 12 },
      },
    }),
)
export type TryAnswer = z.output<typeof tryAnswer>
