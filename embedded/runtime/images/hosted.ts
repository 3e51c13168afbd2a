/**
 * What of an instance's pod runs in the process of the runtime: the agent. It waits nearly all the time, and as a process of
 * its own takes 20 MB of memory and more for each database.
 */
import { parseAgentArguments } from '../../../instance/agent/command.ts'
import { startAgent } from '../../../instance/agent/index.ts'
import { logVariable } from '../../../instance/log/directory.ts'
import type { HostedProgram } from './resolver.ts'

/**
 * It passes no log on: nobody gathers what containers print here, the log stands on the disk already, and a flood would take the time of the
 * process that serves everything.
 */
const agent: HostedProgram = async (args, { log, environment, mayWrite }) => {
  const logDirectory = environment.get(logVariable)
  const { stop } = await startAgent({ ...parseAgentArguments(args), logDirectory, mayWrite, log })
  const over = Promise.withResolvers<number>()
  return { ended: over.promise, stop: () => stop().finally(() => over.resolve(0)) }
}

export const hosted: Record<string, HostedProgram> = { 'espalier instance agent': agent }
