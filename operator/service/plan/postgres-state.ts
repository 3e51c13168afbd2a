/**
 * Postgres as its services see it. Their pods start beside a Postgres that starts, and wait for it (ADR 0100). Pure.
 */

/**
 * `answers`: its roles are in order. `unprobed`: it served when it was last probed. `starting`: its pod is new, and
 * services may be created until then, in ms since the epoch.
 */
export type PostgresState = { is: 'answers' | 'unprobed' | 'away' } | { is: 'starting'; until: number }

/**
 * How long services wait in pods of their own, less than their startup probes allow. Afterwards they do not use memory
 * that Postgres may need, and start when it answers.
 */
export const waitingMs = 90_000

type Facts = {
  answers: boolean
  /** Nothing is known of its present run, and it served before. */
  isStillReady: boolean
  /** Something else has to happen before services may start. */
  isHeld: boolean
  pod: { createdAt: number | undefined; terminating: boolean } | undefined
}

/** Services come after the pod, so that they take no part of a quota that Postgres needs. */
export function postgresState({ answers, isStillReady, isHeld, pod }: Facts, now: number): PostgresState {
  if (isHeld) return { is: 'away' }
  if (answers) return { is: 'answers' }
  if (isStillReady) return { is: 'unprobed' }
  const until = pod === undefined || pod.terminating ? now : (pod.createdAt ?? 0) + waitingMs
  return now < until ? { is: 'starting', until } : { is: 'away' }
}

/** Whether services can only wait. */
export const isAwaited = ({ is }: PostgresState): boolean => is === 'starting' || is === 'away'
