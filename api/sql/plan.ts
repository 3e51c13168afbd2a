/** Decides what a request runs: its statements, their mode, and their role. */
import { badRequest } from '../errors.ts'
import type { UserType } from '../schemas/common.ts'
import { mostSeconds, type SqlInput } from './schema.ts'
import { isRead, type Statement, splitStatements } from './split.ts'

const mostStatements = 1_000
/** The deadline for all statements of a request. It is later than the longest time limit of a single statement. */
const deadlineMs = mostSeconds * 1_000 + 5_000

type Step = {
  readonly text: string
  readonly parameters: readonly (string | null)[]
  readonly shift: number
}

export type Plan = {
  readonly mode: 'read' | 'write'
  readonly role: UserType
  readonly steps: readonly Step[]
  /** Whether the changes are rolled back, because the statement runs only to be explained. */
  readonly isDiscarded: boolean
  readonly maximumRows: number
  readonly timeoutMs: number
  /** The deadline of all statements together. */
  readonly deadlineMs: number
}

const explanations = { plan: 'EXPLAIN (FORMAT JSON) ', analyze: 'EXPLAIN (FORMAT JSON, ANALYZE, BUFFERS) ' } as const

/** @throws ApiError 400 */
export function planOf({ text, mode, role, parameters, explain, max_rows, timeout_seconds }: SqlInput): Plan {
  if (text.includes('\0')) throw badRequest('text: must not contain a zero byte')
  if (!text.isWellFormed()) throw badRequest('text: must be well-formed Unicode')
  const statements = splitStatements(text, mostStatements)
  if (statements.length === 0) throw badRequest('text: contains no statement')
  for (const [field, value] of Object.entries({ parameters, explain }))
    if (value !== undefined && statements.length > 1)
      throw badRequest(`${field}: only for a text of one statement; this text has ${statements.length}`)
  if (mode === 'read') refuseOthers(statements)
  const prefix = explain === undefined ? '' : explanations[explain]
  const values = parameters?.map((value, index) => parameterOf(value, index)) ?? []
  return {
    mode,
    role: role ?? (mode === 'read' ? 'application_read_only' : 'application'),
    steps: statements.map(statement => ({
      text: `${prefix}${statement.text}`,
      parameters: values,
      shift: statement.start - prefix.length,
    })),
    isDiscarded: explain !== undefined && mode === 'write',
    maximumRows: max_rows,
    timeoutMs: timeout_seconds * 1_000,
    deadlineMs,
  }
}

function refuseOthers(statements: readonly Statement[]): void {
  const index = statements.findIndex(statement => !isRead(statement))
  if (index === -1) return
  throw badRequest(
    `text: statement ${index + 1} does not begin with SELECT, VALUES, TABLE, WITH, SHOW or EXPLAIN; other statements need "mode": "write"`,
  )
}

function parameterOf(value: string | number | boolean | null, index: number): string | null {
  if (value === null) return null
  const text = String(value)
  if (text.includes('\0')) throw badRequest(`parameters[${index}]: must not contain a zero byte`)
  if (!text.isWellFormed()) throw badRequest(`parameters[${index}]: must be well-formed Unicode`)
  return text
}
