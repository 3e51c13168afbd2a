/**
 * Runs the instance agent inside the runtime's process. The agent is idle nearly all the time, and a separate process
 * would use at least 20 MB of memory per database.
 */
import { parseAgentArguments } from '../../../instance/agent/command.ts'
import { startAgent } from '../../../instance/agent/index.ts'
import { logVariable } from '../../../instance/log/directory.ts'
import type { HostedProgram } from './resolver.ts'

/**
 * The agent does not forward logs here. No component collects container output, the log is already on disk, and a flood
 * would slow down the runtime's process, which serves everything.
 */
const agent: HostedProgram = async (args, { log, environment, mayWrite }) => {
  const logDirectory = environment.get(logVariable)
  const { stop } = await startAgent({ ...parseAgentArguments(args), logDirectory, mayWrite, log })
  const over = Promise.withResolvers<number>()
  return { ended: over.promise, stop: () => stop().finally(() => over.resolve(0)) }
}

export const hosted: Record<string, HostedProgram> = { 'espalier instance agent': agent }
