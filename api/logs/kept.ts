/** The entries of an instance's log that are kept on its volume, by the agent beside its Postgres. */
import { z } from 'zod'
import { mostLogEntries } from '../../instance/agent/contract.ts'
import type { LogEntry } from '../../instance/log/entry.ts'
import { presented } from '../../instance/log/present.ts'
import { type Agents, type Instance, ofInstance } from '../agents.ts'
import type { Window } from './printed.ts'
import { logEntry } from './schema.ts'

/** Of an agent's answer: its entries take at most half of it. */
const mostBytes = 8 * 1024 * 1024

/** What a later agent says beyond what we know is passed over. */
const answer = z.object({
  id: z.string(),
  isWhole: z.boolean(),
  entries: z.array(z.object(logEntry.shape)).max(mostLogEntries),
})

/** Newest first. `isWhole`: the window holds no older ones. */
export type Kept = { entries: LogEntry[]; isWhole: boolean }

/** @throws where there is no agent that keeps a log, or none that answers */
export async function readKept(agents: Agents, instance: Instance, window: Window): Promise<Kept> {
  const { maxLines, startMs, endMs } = window
  const query = new URLSearchParams({
    most: String(maxLines),
    ...(startMs === undefined ? {} : { since: String(Math.max(0, startMs)) }),
    ...(endMs === undefined ? {} : { until: String(Math.max(0, endMs)) }),
  })
  const told = answer.parse(await agents.ask(instance, `/log?${query}`, mostBytes))
  const { entries, isWhole } = ofInstance(told, instance)
  // What may be a password is known to us at least as well as to an agent that has run for a year.
  return { entries: entries.map(presented), isWhole }
}
