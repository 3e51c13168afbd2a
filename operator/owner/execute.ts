/**
 * Performs the actions of a pass, all at once, and sorts what they met. A fault that users can act on becomes a problem for a
 * condition. Any other is an error, after which the pass is repeated.
 */
import { isClusterError } from '../../cluster/index.ts'
import { RangeExhaustedError } from '../endpoint/port-allocator.ts'
import { NameTakenError } from '../objects/name-taken.ts'
import { diskFull, PostgresError } from '../postgres/administrator.ts'
import type { Done } from '../workload/act.ts'
import type { Problem } from './problems.ts'

export type Outcome = {
  problems: Problem[]
  errors: unknown[]
  /** Its region has no port left: a problem that only another database's end, or a wider range, mends. */
  awaitsPort: boolean
  /** The volume must not grow: there is something to tell. */
  growthRefused: boolean
  /** The owner itself is gone: nothing more can be said of it. */
  released: boolean
}

/** Does all actions at once, each by `perform`, and sorts what comes of them. */
export async function execute<A>(
  actions: readonly A[],
  perform: (action: A) => Promise<Done | 'released'>,
): Promise<Outcome> {
  const outcome: Outcome = { problems: [], errors: [], awaitsPort: false, growthRefused: false, released: false }
  const results = await Promise.allSettled(actions.map(perform))
  for (const result of results) {
    if (result.status === 'fulfilled') {
      if (result.value === 'released') outcome.released = true
      if (result.value === 'refused') outcome.growthRefused = true
      continue
    }
    if (result.reason instanceof RangeExhaustedError) outcome.awaitsPort = true
    else outcome.errors.push(result.reason)
    const problem = problemOf(result.reason)
    if (problem) outcome.problems.push(problem)
  }
  return outcome
}

/** The error a pass fails with: one that is not a mere conflict, if there is one. */
export const worst = (errors: readonly unknown[]): unknown =>
  errors.find(error => !isClusterError(error, 'Conflict')) ?? errors[0]

/** What users should hear of an error; undefined for what the next look mends. */
function problemOf(error: unknown): Problem | undefined {
  if (error instanceof NameTakenError) return { condition: 'Progressing', reason: 'NameTaken', message: error.message }
  if (error instanceof RangeExhaustedError)
    return { condition: 'EndpointReady', reason: 'PortRangeExhausted', message: error.message }
  if (isClusterError(error, 'Invalid', 'Forbidden', 'BadRequest'))
    return { condition: 'Progressing', reason: 'Refused', message: error.message }
  if (!(error instanceof PostgresError)) return undefined
  if (error.code === diskFull) return { condition: 'VolumeReady', reason: 'DiskFull', message: error.message }
  return error.reason === 'statement'
    ? { condition: 'CredentialsReady', reason: 'RolesRefused', message: error.message }
    : undefined
}
