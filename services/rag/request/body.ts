/**
 * The body of a query. Unknown keys are refused, because a misspelt `filter` would otherwise return rows that should be
 * excluded.
 */
import { z } from 'zod'
import { ruleOf } from '../../configuration/rule.ts'
import { RagError } from '../errors.ts'
import { filter } from './filter.ts'

const longestQuery = 32_000
const mostMessages = 200
export const mostTopN = 1_000

const message = z.strictObject({
  role: z.enum(['user', 'assistant']),
  content: z.string(),
})

const queryBody = z.strictObject({
  query: z
    .string()
    .max(longestQuery)
    .refine(text => text.trim() !== '', 'must not be empty'),
  stream: z.boolean().default(false),
  top_n: z.int().min(1).max(mostTopN).optional(),
  filter: filter.optional(),
  include_sources: z.boolean().default(false),
  messages: z.array(message).max(mostMessages).default([]),
})

export type Query = z.output<typeof queryBody>
export type Message = z.output<typeof message>

/** @throws RagError INVALID_REQUEST with the field and the rule */
export function parseQuery(body: unknown): Query {
  const parsed = queryBody.safeParse(body, { error: ruleOf })
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const field = issue?.path.length ? z.core.toDotPath(issue.path) : 'the body'
  throw new RagError('INVALID_REQUEST', `${field} ${issue?.message ?? 'is invalid'}`)
}
