/** The entries of an instance's log on its volume, read by the agent beside its Postgres. */
import { z } from 'zod'
import { mostLogEntries } from '../../instance/agent/contract.ts'
import type { LogEntry } from '../../instance/log/entry.ts'
import { presented } from '../../instance/log/present.ts'
import { type Agents, type Instance, ofInstance } from '../agents.ts'
import type { Window } from './printed.ts'
import { logEntry } from './schema.ts'

/** The size limit of an agent's response: its entries take at most half of it. */
const mostBytes = 8 * 1024 * 1024

/** Unknown fields of a newer agent are ignored. */
const answer = z.object({
  id: z.string(),
  isWhole: z.boolean(),
  entries: z.array(z.object(logEntry.shape)).max(mostLogEntries),
})

/** Newest first. `isWhole`: the window contains no older ones. */
export type VolumeLog = { entries: LogEntry[]; isWhole: boolean }

/** @throws if there is no agent that keeps a log, or it does not respond */
export async function readVolumeLog(agents: Agents, instance: Instance, window: Window): Promise<VolumeLog> {
  const { maxLines, startMs, endMs } = window
  const query = new URLSearchParams({
    most: String(maxLines),
    ...(startMs === undefined ? {} : { since: String(Math.max(0, startMs)) }),
    ...(endMs === undefined ? {} : { until: String(Math.max(0, endMs)) }),
  })
  const response = answer.parse(await agents.read(instance, `/log?${query}`, mostBytes))
  const { entries, isWhole } = ofInstance(response, instance)
  // Passwords are removed here as well: an old agent's rules may be older than ours.
  return { entries: entries.map(presented), isWhole }
}
