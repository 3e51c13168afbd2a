/** Runs the statements of a request on its connection, and yields the lines of the response. */
import type { ErrorLine, Line } from './lines.ts'
import { ownError } from './lines.ts'
import type { Plan } from './plan.ts'
import { mostSeconds } from './schema.ts'
import { canceled, type Session, StatementFailure } from './session.ts'

export type NumberedLine = Line & { readonly statement: number }

/** How a request ended. */
export type Outcome = {
  result: 'completed' | 'failed' | 'canceled'
  /** The number of completed statements. */
  completed: number
  sqlstate?: string
}

/**
 * At the end, closes the session and calls `onEnd` with the outcome. If the client disconnects before the generator
 * starts, the caller must do both.
 */
export async function* runPlan(
  session: Session,
  plan: Plan,
  onEnd: (outcome: Outcome) => void,
): AsyncGenerator<NumberedLine, void, void> {
  const outcome: Outcome = { result: 'canceled', completed: 0 }
  const numbered = (line: Line): NumberedLine => ({
    ...line,
    statement: Math.min(outcome.completed, plan.steps.length - 1),
  })
  // Without a deadline, 1,000 statements within their own time limits could occupy the connection and its snapshot for
  // days.
  const deadline = setTimeout(() => session.abort(late), plan.deadlineMs)
  try {
    if (plan.mode === 'read') await session.begin()
    if (plan.isDiscarded) await session.command('BEGIN')
    for (const step of plan.steps) {
      const { maximumRows, timeoutMs } = plan
      for await (const line of session.run({ ...step, maximumRows, timeoutMs })) yield numbered(line)
      outcome.completed++
    }
    if (plan.mode === 'write' && session.isInTransaction && !plan.isDiscarded) yield numbered(openTransaction)
    outcome.result = 'completed'
  } catch (error) {
    const line: ErrorLine = error instanceof StatementFailure ? error.line : internal
    outcome.result = line === canceled ? 'canceled' : 'failed'
    outcome.sqlstate = line.sqlstate
    yield numbered(line)
    if (!(error instanceof StatementFailure)) throw error
  } finally {
    clearTimeout(deadline)
    if (outcome.result === 'canceled') session.abort()
    else session.close()
    onEnd(outcome)
  }
}

const openTransaction: Line = {
  type: 'notice',
  severity: 'WARNING',
  sqlstate: '25P01',
  message: 'the text left a transaction open: Postgres rolls it back',
}

const late = ownError(
  '57014',
  `canceled: the statements of the request exceeded ${mostSeconds} s together, which includes reading their rows`,
)
const internal = ownError('XX000', 'internal error: search the log for the X-Request-Id of this response')
