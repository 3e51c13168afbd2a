/**
 * The state of Postgres for its services. While Postgres starts, their pods start too, and wait for it (ADR 0100).
 * Pure.
 */

/**
 * `answers`: the roles are in order. `unprobed`: Postgres served at the last probe. `starting`: its pod is new.
 * Services may be created until `until`, in ms since the epoch.
 */
export type PostgresState = { is: 'answers' | 'unprobed' | 'away' } | { is: 'starting'; until: number }

/**
 * How long services wait in their own pods, less than their startup probes allow. After that, their pods are deleted,
 * so that they do not use memory that Postgres may need. They start when Postgres answers.
 */
export const waitingMs = 90_000

type Facts = {
  answers: boolean
  /** Nothing is known about the current run of Postgres, and it served before. */
  isStillReady: boolean
  /** Services must wait for another step. */
  isHeld: boolean
  pod: { createdAt: number | undefined; terminating: boolean } | undefined
}

/** The services' pods are created after Postgres's pod, so that they do not use a quota that Postgres needs. */
export function postgresState({ answers, isStillReady, isHeld, pod }: Facts, now: number): PostgresState {
  if (isHeld) return { is: 'away' }
  if (answers) return { is: 'answers' }
  if (isStillReady) return { is: 'unprobed' }
  const until = pod === undefined || pod.terminating ? now : (pod.createdAt ?? 0) + waitingMs
  return now < until ? { is: 'starting', until } : { is: 'away' }
}

/** Whether services can only wait for Postgres. */
export const isAwaited = ({ is }: PostgresState): boolean => is === 'starting' || is === 'away'
