/** Parses the agent's command line, and runs the agent until a signal. */
import { flushCompileCache } from 'node:module'
import { parseArgs } from 'node:util'
import { logVariable } from '../log/directory.ts'
import type { Agent, AgentOptions } from './index.ts'

type Named = Pick<AgentOptions, 'id' | 'host' | 'data' | 'tls' | 'state' | 'archive'>

/** @throws Error for missing, unknown or invalid options */
export function parseAgentArguments(argv: readonly string[]): Named {
  const text = { type: 'string' } as const
  const { values } = parseArgs({
    args: [...argv],
    options: {
      ...{ id: text, host: text, data: text, tls: text, state: text },
      ...{ archive: text, 'archive-tls': text, 'archive-markers': text },
    },
  })
  const needed = (name: keyof typeof values): string => {
    const value = values[name]
    if (value === undefined || value === '') throw new Error(`--${name} is required`)
    return value
  }
  const id = needed('id')
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id)) throw new Error('--id must be a UUID')
  const named = { id, host: needed('host'), data: needed('data'), tls: needed('tls'), state: needed('state') }
  if (values.archive === undefined) return named
  const url = needed('archive')
  if (URL.parse(url)?.protocol !== 'https:') throw new Error('--archive must be https://HOST:PORT')
  return { ...named, archive: { url, tls: needed('archive-tls'), markers: needed('archive-markers') } }
}

const warmMarker = 'ESPALIER_AGENT_WARM'

/**
 * Restarts this process once, with its modules from the compile cache. Otherwise the TypeScript compiler would keep 28
 * MB of memory in every process that has loaded it.
 */
function restart(): void {
  if (process.env.NODE_COMPILE_CACHE === undefined || process.env[warmMarker] !== undefined) return
  flushCompileCache()
  const command = [process.execPath, ...process.execArgv, ...process.argv.slice(1)]
  process.execve?.(process.execPath, command, { ...process.env, [warmMarker]: 'yes' })
}

/** Runs until a signal stops it. */
export async function runAgent(argv: readonly string[]): Promise<void> {
  const options = parseAgentArguments(argv)
  const { startAgent } = await import('./index.ts')
  // The module is loaded now, because a module that is loaded later would not be in the cache.
  if (options.archive !== undefined) await import('../archive/index.ts')
  restart()
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
