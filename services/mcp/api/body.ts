/** Checks a request body against its schema. The error names the field and the rule. */
import type { z } from 'zod'
import { ruleOf } from '../../configuration/rule.ts'
import type { Json } from '../../mcp-protocol/json.ts'
import { ApiError } from './errors.ts'

/** @throws ApiError with status 400 */
export function parseBody<Parsed>(schema: z.ZodType<Parsed>, body: Json): Parsed {
  const { success, data, error } = schema.safeParse(body, { error: ruleOf })
  if (success) return data
  const [issue] = error.issues
  const field = issue?.path.join('.') || 'body'
  throw new ApiError(400, `${field}: ${issue?.message ?? 'is wrong'}`)
}
