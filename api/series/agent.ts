/** Reads samples from the agent beside a Postgres. */
import { z } from 'zod'
import { sampleEveryMs } from '../../instance/agent/contract.ts'
import { type Measure, measureNames } from '../../instance/agent/measures.ts'
import { type Agents, ofInstance } from '../agents.ts'
import type { SampleSource } from './source.ts'

const mostBytes = 1024 * 1024

const number = z.number().nullable().catch(null)
const values = z.object(Object.fromEntries(measureNames.map(name => [name, number])) as Record<Measure, typeof number>)
const answer = z.object({ id: z.string(), samples: z.array(z.object({ at: z.number(), values })).max(1000) })

export function createAgentSource(agents: Agents): SampleSource {
  const read: SampleSource['read'] = async (instance, { startMs, intervalMs }) => {
    const since = Math.floor(startMs - Math.max(2 * sampleEveryMs, intervalMs))
    const response = answer.parse(await agents.read(instance, `/samples?since=${since}`, mostBytes))
    return ofInstance(response, instance).samples
  }
  return { isAgent: true, read }
}
