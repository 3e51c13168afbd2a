/**
 * When a Postgres is idle and not queried: for two minutes of samples no client was connected, and no session began. A
 * session costs such a Postgres more than everything else, so it is queried only every twenty minutes, or as soon as
 * there is activity: WAL is written, or the kernel has a connection to it. After its own writes, such as checkpoints
 * and autovacuum, it is queried once. Only a session that writes nothing and ends between two checks is counted late.
 */

/** Postgres's last answer. */
export type Answered = {
  at: number
  values: Record<string, unknown>
  /** When the current WAL file was last written before the query, in ms; undefined if unknown. */
  writtenAt: number | undefined
  /** Since when no session has begun. */
  quietSince: number
}

/** Both slightly less, since clocks are not exact. */
const quietMs = 2 * 60_000 - 5_000
const restMs = 20 * 60_000 - 5_000

const isSame = (before: Record<string, unknown>, now: Record<string, unknown>): boolean =>
  now.connections === 0 && before.sessions === now.sessions

/** `before`: absent if it did not answer before, or was not queried. */
export function answered(before: Answered | undefined, now: Omit<Answered, 'quietSince'>): Answered {
  const isQuiet = before !== undefined && isSame(before.values, now.values)
  return { ...now, quietSince: isQuiet ? before.quietSince : now.at }
}

/** Whether the last answer is considered current, unless a client is connected now. */
export const isUndisturbed = (last: Answered, at: number, writtenAt: number | undefined): boolean =>
  at - last.quietSince >= quietMs && at - last.at < restMs && writtenAt !== undefined && writtenAt === last.writtenAt
