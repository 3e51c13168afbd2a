/**
 * Decides when a Postgres is idle and needs no query: when for two minutes of samples no client was connected and no
 * session began. A session costs such a Postgres more than everything else. So it is queried only every twenty minutes,
 * or as soon as there is activity: WAL is written, or the kernel has a connection to it. After its own writes, such as
 * checkpoints and autovacuum, it is queried once. Only a session that writes nothing and ends between two checks is
 * counted late.
 */

/** Postgres's last answer. */
export type Answered = {
  at: number
  values: Record<string, unknown>
  /** When the current WAL file was last written before the query, in ms; undefined if unknown. */
  writtenAt: number | undefined
  /** The time since which no session has begun. */
  quietSince: number
}

/** Both are slightly shorter than the round values, since clocks are not exact. */
const quietMs = 2 * 60_000 - 5_000
const restMs = 20 * 60_000 - 5_000

const isSame = (before: Record<string, unknown>, now: Record<string, unknown>): boolean =>
  now.connections === 0 && before.sessions === now.sessions

/** `before`: absent if Postgres did not answer before, or was not queried. */
export function answered(before: Answered | undefined, now: Omit<Answered, 'quietSince'>): Answered {
  const isQuiet = before !== undefined && isSame(before.values, now.values)
  return { ...now, quietSince: isQuiet ? before.quietSince : now.at }
}

/** Whether the last answer is still current, provided that no client is connected now. */
export const isUndisturbed = (last: Answered, at: number, writtenAt: number | undefined): boolean =>
  at - last.quietSince >= quietMs && at - last.at < restMs && writtenAt !== undefined && writtenAt === last.writtenAt
