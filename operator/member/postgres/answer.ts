/** Postgres's last answer, if it is still valid. */
import type { ObservedMember, PostgresAnswer } from '../observed.ts'

/** Postgres's answer in its current run. Undefined if there is none. */
export type Answered = Extract<PostgresAnswer, { state: 'answered' }> | undefined

/**
 * Whether the operator may record the volume's data in this instance's status. The operator records a copy only after
 * the source's objects are removed. So a recorded copy is never treated as a new copy.
 */
export const isOwn = (answered: Answered): answered is NonNullable<Answered> =>
  answered !== undefined && !answered.closed?.inherited

/** Postgres's answer. Undefined if the answer is from an earlier run, or if each probe of this run has timed out. */
export function presentAnswer({
  pod,
  postgres,
  children,
}: Pick<ObservedMember, 'pod' | 'postgres' | 'children'>): PostgresAnswer | undefined {
  if (pod?.address === undefined || pod.run !== postgres?.run) return undefined
  // An answer about another volume is not valid for this one.
  return pod.volume === children.claim?.metadata.uid ? postgres.answer : undefined
}
