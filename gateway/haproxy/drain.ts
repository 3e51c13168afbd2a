/**
 * Waits until HAProxy may be ended: nobody is admitted any more and no session is open. It runs before HAProxy is told to
 * stop (the pod's preStop hook), since HAProxy answers SIGTERM by ending every session at once.
 */
import { frontendName } from './configuration.ts'
import { deadlineKey, type Paths } from './paths.ts'
import { connectRuntime, type RuntimeConnection } from './runtime.ts'

const pollMs = 500

/** Resolves to what ended the wait. It waits for as long as it takes: how long that may be, the pod says. */
export async function drain(paths: Paths, now: () => number = Date.now): Promise<'drained' | 'gone'> {
  const connection = await connectRuntime(paths.runtime)
  if ('kind' in connection) return 'gone'
  try {
    for (;;) {
      const sessions = await openSessions(connection)
      const deadline = await deadlineOf(connection, paths)
      if (sessions === undefined || deadline === undefined) return 'gone'
      if (sessions === 0 && deadline <= Math.floor(now() / 1000)) return 'drained'
      await new Promise(resolve => setTimeout(resolve, pollMs))
    }
  } finally {
    connection.close()
  }
}

/** Open connections of the frontend; undefined where HAProxy is gone. */
export async function openSessions(connection: RuntimeConnection): Promise<number | undefined> {
  const answer = await connection.command('show stat')
  if (answer.kind === 'lost') return undefined
  // CSV: proxy, FRONTEND or a server, queued now and most, sessions now (management guide, "Statistics").
  const line = answer.text.split('\n').find(text => text.startsWith(`${frontendName},FRONTEND,`))
  return line === undefined ? undefined : Number(line.split(',')[4])
}

/** Until when HAProxy admits, in seconds since the epoch; 0 where nothing was ever said, undefined where it is gone. */
async function deadlineOf(connection: RuntimeConnection, paths: Paths): Promise<number | undefined> {
  const answer = await connection.command(`show map ${paths.state}`)
  if (answer.kind === 'lost') return undefined
  return Number(new RegExp(` ${deadlineKey} ([0-9]+)$`, 'm').exec(answer.text)?.[1] ?? 0)
}
