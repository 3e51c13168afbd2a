/**
 * Decides whether Postgres is idle, so that a sample needs no query. Postgres is idle if no sample of the last two
 * minutes shows a client or a new session. Opening a session for the query costs eight times as much as the query. So
 * the agent queries an idle Postgres only every 20 minutes, or after activity: WAL was written, or a client is
 * connected. If Postgres itself wrote the WAL (a checkpoint, autovacuum), the agent queries once. Two events are
 * detected late: an idle Postgres crashes, or a session writes nothing and ends between two checks.
 */

/** Postgres's last answer. */
export type Answered = {
  at: number
  values: Record<string, unknown>
  /** When the current WAL file was last written before the query, in ms; undefined if unknown. */
  writtenAt: number | undefined
  /** No query after this time has found a client or a new session. */
  quietSince: number
}

/** Slightly shorter than 2 and 20 minutes, because clocks are not exact. */
const quietMs = 2 * 60_000 - 5_000
const restMs = 20 * 60_000 - 5_000

const isSame = (before: Record<string, unknown>, now: Record<string, unknown>): boolean =>
  now.connections === 0 && before.sessions === now.sessions

/** `before`: the previous answer; undefined at the first query, and if the previous query failed. */
export function answered(before: Answered | undefined, now: Omit<Answered, 'quietSince'>): Answered {
  const isQuiet = before !== undefined && isSame(before.values, now.values)
  return { ...now, quietSince: isQuiet ? before.quietSince : now.at }
}

/** Whether the last answer is still current, provided that no client is connected now. */
export const isUndisturbed = (last: Answered, at: number, writtenAt: number | undefined): boolean =>
  at - last.quietSince >= quietMs && at - last.at < restMs && writtenAt !== undefined && writtenAt === last.writtenAt
