/**
 * Performs the actions of a pass concurrently, and sorts their failures. If users can fix a failure, it becomes a
 * problem for a condition. Any other failure is an error, after which the pass is repeated.
 */
import { isClusterError, isRefused } from '../../cluster/index.ts'
import { RangeExhaustedError } from '../endpoint/port-allocator.ts'
import { NameTakenError } from '../objects/name-taken.ts'
import { diskFull, PostgresError } from '../postgres/administrator.ts'
import type { Result } from './kind.ts'
import type { Problem } from './problems.ts'

export type Outcome<Status> = {
  problems: Problem[]
  errors: unknown[]
  /**
   * The region has no free port. The owner gets a port when another owner is deleted, or when the range is extended.
   */
  awaitsPort: boolean
  /** The cluster refuses to grow the volume. The next pass reports why. */
  growthRefused: boolean
  /** The owner's object was written or deleted. The next pass reads its new state. */
  isReplaced: boolean
  /** Replaces the planned status. */
  status: Status | undefined
}

/** Performs all actions concurrently with `perform`, and sorts the results. */
export async function execute<Action, Status>(
  actions: readonly Action[],
  perform: (action: Action) => Promise<Result<Status>>,
): Promise<Outcome<Status>> {
  const outcome: Outcome<Status> = {
    ...{ problems: [], errors: [], awaitsPort: false, growthRefused: false, isReplaced: false, status: undefined },
  }
  for (const result of await Promise.allSettled(actions.map(perform))) {
    if (result.status === 'fulfilled') noteResult(outcome, result.value)
    else noteError(outcome, result.reason)
  }
  return outcome
}

function noteResult<Status>(outcome: Outcome<Status>, result: Result<Status>): void {
  if (typeof result === 'object') outcome.status = result.status
  else if (result === 'replaced') outcome.isReplaced = true
  else if (result === 'refused') outcome.growthRefused = true
}

function noteError<Status>(outcome: Outcome<Status>, error: unknown): void {
  if (error instanceof RangeExhaustedError) outcome.awaitsPort = true
  else outcome.errors.push(error)
  const problem = problemOf(error)
  if (problem) outcome.problems.push(problem)
}

/** The error that a pass fails with: an error that is not a conflict, if there is one. */
export const worst = (errors: readonly unknown[]): unknown =>
  errors.find(error => !isClusterError(error, 'Conflict')) ?? errors[0]

/** The problem that a condition reports for an error. Undefined if the next pass fixes the error. */
function problemOf(error: unknown): Problem | undefined {
  if (error instanceof NameTakenError) return { condition: 'Progressing', reason: 'NameTaken', message: error.message }
  if (error instanceof RangeExhaustedError)
    return { condition: 'EndpointReady', reason: 'PortRangeExhausted', message: error.message }
  if (isRefused(error)) return { condition: 'Progressing', reason: 'Refused', message: error.message }
  if (!(error instanceof PostgresError)) return undefined
  if (error.code === diskFull) return { condition: 'VolumeReady', reason: 'DiskFull', message: error.message }
  return error.reason === 'statement'
    ? { condition: 'CredentialsReady', reason: 'RolesRefused', message: error.message }
    : undefined
}
