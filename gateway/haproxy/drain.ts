/**
 * Stops HAProxy once it admits no connection and no session is open. Kubernetes runs this as the preStop hook of
 * HAProxy's container. SIGTERM is unsuitable. As process 1 of its container, HAProxy ignores SIGTERM until Kubernetes
 * kills the container. If HAProxy is not process 1, SIGTERM ends every session at once.
 */
import { readFile } from 'node:fs/promises'
import { frontendName } from './configuration.ts'
import { httpsFrontendName } from './https.ts'
import { deadlineKey, type Paths } from './paths.ts'
import { connectRuntime, type RuntimeConnection } from './runtime.ts'

const pollMs = 500

/**
 * Waits until no session is open and the deadline has passed, then stops HAProxy. Only the pod limits this time.
 * Resolves to `gone` if HAProxy has ended. This process must share HAProxy's process namespace, as a hook in HAProxy's
 * container does. Otherwise HAProxy keeps running.
 */
export async function drain(paths: Paths, now: () => number = Date.now): Promise<'drained' | 'gone'> {
  const connection = await connectRuntime(paths.runtime)
  if ('kind' in connection) return 'gone'
  try {
    for (;;) {
      const sessions = await openSessions(connection)
      const deadline = await deadlineOf(connection, paths)
      if (sessions === undefined || deadline === undefined) return 'gone'
      if (sessions === 0 && deadline <= Math.floor(now() / 1000)) {
        await softStop(connection, paths)
        return 'drained'
      }
      await new Promise(resolve => setTimeout(resolve, pollMs))
    }
  } finally {
    connection.close()
  }
}

/** Makes HAProxy stop softly: it stops listening, and ends with its last connection. */
async function softStop(connection: RuntimeConnection, paths: Paths): Promise<void> {
  const answer = await connection.command('show info')
  const pid = Number(/^Pid: ([0-9]+)$/m.exec(answer.kind === 'answer' ? answer.text : '')?.[1])
  // In another container's namespace, the process id would identify another process.
  const started = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
  if (started.split('\0').includes(paths.configuration)) process.kill(pid, 'SIGUSR1')
}

/** Open connections of the frontends; undefined if HAProxy is not running. */
async function openSessions(connection: RuntimeConnection): Promise<number | undefined> {
  const answer = await connection.command('show stat')
  if (answer.kind === 'lost') return undefined
  // CSV columns (management guide, "Statistics"): proxy name, FRONTEND or server name, current queue, maximum queue,
  // current sessions.
  const lines = answer.text.split('\n').map(line => line.split(','))
  const sessionsOf = (name: string) => lines.find(([proxy, part]) => proxy === name && part === 'FRONTEND')?.[4]
  const sessions = sessionsOf(frontendName)
  return sessions === undefined ? undefined : Number(sessions) + Number(sessionsOf(httpsFrontendName) ?? 0)
}

/**
 * The time until which HAProxy admits connections, in seconds since the epoch. 0 if it was never set; undefined if
 * HAProxy is not running.
 */
async function deadlineOf(connection: RuntimeConnection, paths: Paths): Promise<number | undefined> {
  const answer = await connection.command(`show map ${paths.state}`)
  if (answer.kind === 'lost') return undefined
  return Number(new RegExp(` ${deadlineKey} ([0-9]+)$`, 'm').exec(answer.text)?.[1] ?? 0)
}
