/** The agent's command line, and the agent as a process of its own. */
import { flushCompileCache } from 'node:module'
import { parseArgs } from 'node:util'
import { logVariable } from '../log/directory.ts'
import type { Agent, AgentOptions } from './index.ts'

type Named = Pick<AgentOptions, 'id' | 'host' | 'data' | 'tls' | 'state'>

/** @throws Error for what is missing or unknown */
export function parseAgentArguments(argv: readonly string[]): Named {
  const text = { type: 'string' } as const
  const { values } = parseArgs({
    args: [...argv],
    options: { id: text, host: text, data: text, tls: text, state: text },
  })
  const needed = (name: keyof typeof values): string => {
    const value = values[name]
    if (value === undefined || value === '') throw new Error(`--${name} is required`)
    return value
  }
  const id = needed('id')
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id)) throw new Error('--id must be a UUID')
  return { id, host: needed('host'), data: needed('data'), tls: needed('tls'), state: needed('state') }
}

const warmMarker = 'ESPALIER_AGENT_WARM'

/**
 * Starts this process anew, once, with its modules out of the cache: what makes TypeScript into JavaScript takes 28 MB for as
 * long as a process lives that has loaded it.
 */
function startAnew(): void {
  if (process.env.NODE_COMPILE_CACHE === undefined || process.env[warmMarker] !== undefined) return
  flushCompileCache()
  const command = [process.execPath, ...process.execArgv, ...process.argv.slice(1)]
  process.execve?.(process.execPath, command, { ...process.env, [warmMarker]: 'yes' })
}

/** Runs until it is told to stop. */
export async function runAgent(argv: readonly string[]): Promise<void> {
  const options = parseAgentArguments(argv)
  const { startAgent } = await import('./index.ts')
  startAnew()
  const signalled = new Promise<void>(resolve => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve())
  })
  const agent: Agent = await startAgent({
    ...options,
    logDirectory: process.env[logVariable],
    passOn: text => process.stdout.write(text),
    log: line => process.stderr.write(`${line}\n`),
  })
  await signalled
  await agent.stop()
}
