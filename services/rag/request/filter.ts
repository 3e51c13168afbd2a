/**
 * The structured filter of requests and configurations. Requests cannot contain SQL text, because a filter must be an
 * object.
 */
import { z } from 'zod'

export const comparisons = ['=', '!=', '<', '>', '<=', '>=', 'LIKE', 'ILIKE'] as const
export const lists = ['IN', 'NOT IN'] as const
export const tests = ['IS NULL', 'IS NOT NULL'] as const

const mostConditions = 50
const mostValues = 1_000
const longestColumn = 63
const longestText = 10_000

/** JSON.parse changes a larger integer. The changed value may belong to another tenant. */
const isExact = (value: number): boolean => !Number.isInteger(value) || Number.isSafeInteger(value)

const scalar = z.union(
  [
    z.string().max(longestText),
    z.number().refine(isExact, 'must be a text for an integer beyond 9007199254740991'),
    z.boolean(),
  ],
  'must be a text of at most 10000 characters, a number, true or false',
)
const column = z.string().min(1).max(longestColumn)

const comparison = z.strictObject({ column, operator: z.enum(comparisons), value: scalar })
const list = z.strictObject({
  column,
  operator: z.enum(lists),
  value: z.array(scalar).max(mostValues, `must have at most ${mostValues} values`),
})
const test = z.strictObject({ column, operator: z.enum(tests), value: z.null().optional() })

const condition = z.discriminatedUnion('operator', [comparison, list, test], {
  error: `must be one of ${[...comparisons, ...lists, ...tests].join(', ')}`,
})

export const filter = z.strictObject({
  conditions: z.array(condition).max(mostConditions, `must have at most ${mostConditions} conditions`),
  logic: z.enum(['AND', 'OR']).default('AND'),
})

export type Condition = z.output<typeof condition>
export type Filter = z.output<typeof filter>
