/** Postgres's last answer, if it still applies. */
import type { ObservedMember, PostgresAnswer } from '../observed.ts'

/** Postgres's answer in its present run, with the present passwords; undefined if there is none. */
export type Answered = Extract<PostgresAnswer, { state: 'answered' }> | undefined

/**
 * Whether the data on the volume may be recorded as this instance's. A copy is recorded only once the objects of its
 * source are removed, so that a recorded one is never treated as a new copy.
 */
export const isOwn = (answered: Answered): answered is NonNullable<Answered> =>
  answered !== undefined && !answered.closed?.inherited

/** Postgres's answer, unless an earlier run gave it, or none has been given within the timeout yet. */
export function presentAnswer({
  pod,
  postgres,
  children,
}: Pick<ObservedMember, 'pod' | 'postgres' | 'children'>): PostgresAnswer | undefined {
  if (pod?.address === undefined || pod.run !== postgres?.run) return undefined
  // The data on another volume say nothing about this one.
  return pod.volume === children.claim?.metadata.uid ? postgres.answer : undefined
}
