/** What Postgres last answered, where it still applies. */
import type { ObservedMember, PostgresAnswer } from '../observed.ts'

/** What Postgres answered, in its present run, with the present passwords; undefined where it has not. */
export type Answered = Extract<PostgresAnswer, { state: 'answered' }> | undefined

/**
 * Whether what stands on the volume may be put on record as this instance's: a copy only once it is rid of what was its
 * source's, so that one on record never is taken for one that just came.
 */
export const isOwn = (answered: Answered): answered is NonNullable<Answered> =>
  answered !== undefined && !answered.closed?.inherited

/** Postgres's answer, unless it was given by an earlier run of it, or none has come in time yet. */
export function presentAnswer({
  pod,
  postgres,
  children,
}: Pick<ObservedMember, 'pod' | 'postgres' | 'children'>): PostgresAnswer | undefined {
  if (pod?.address === undefined || pod.run !== postgres?.run) return undefined
  // What stands on another volume says nothing about this one.
  return pod.volume === children.claim?.metadata.uid ? postgres.answer : undefined
}
