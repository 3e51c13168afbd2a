/**
 * When a Postgres is at rest, and is left alone: for two minutes of answers nobody was connected, and nobody had come. A session
 * costs such a Postgres more than all else that it does, so it is asked every twenty minutes, or as soon as it stirs: WAL is
 * written, or the kernel has a connection to it. What it writes by itself, as its checkpoints and autovacuum do, is asked for
 * once. Only a visit that writes nothing and is over between two looks is counted that much later.
 */

/** What Postgres answered last. */
export type Answered = {
  at: number
  values: Record<string, unknown>
  /** When the file that it writes WAL into was last written to, before it was asked, in ms; undefined where that is not known. */
  writtenAt: number | undefined
  /** Since when nobody has come. */
  quietSince: number
}

/** Both a little less, since clocks are not exact. */
const settlingMs = 2 * 60_000 - 5_000
const restMs = 20 * 60_000 - 5_000

const isSame = (before: Record<string, unknown>, now: Record<string, unknown>): boolean =>
  now.connections === 0 && before.sessions === now.sessions

/** `before`: absent where it did not answer before, or was not asked. */
export function answered(before: Answered | undefined, now: Omit<Answered, 'quietSince'>): Answered {
  const isQuiet = before !== undefined && isSame(before.values, now.values)
  return { ...now, quietSince: isQuiet ? before.quietSince : now.at }
}

/** Whether what was answered is taken to be so yet, unless somebody is connected now. */
export const isLeftAlone = (last: Answered, at: number, writtenAt: number | undefined): boolean =>
  at - last.quietSince >= settlingMs && at - last.at < restMs && writtenAt !== undefined && writtenAt === last.writtenAt
