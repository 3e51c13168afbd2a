/**
 * Ends HAProxy once it may be ended: nobody is admitted any more and no session is open. It runs before the pod's
 * containers are told to stop (the preStop hook of HAProxy's). SIGTERM is of no use to HAProxy: it would end every session
 * at once, and as the first process of its container it does not hear it at all, and would stay until it is killed.
 */
import { readFile } from 'node:fs/promises'
import { frontendName } from './configuration.ts'
import { httpsFrontendName } from './https.ts'
import { deadlineKey, type Paths } from './paths.ts'
import { connectRuntime, type RuntimeConnection } from './runtime.ts'

const pollMs = 500

/**
 * Waits, for as long as it takes (how long that may be, the pod says), and tells HAProxy to go. Resolves to whether it
 * was there to the end. It must share HAProxy's processes, as a hook in its container does; else HAProxy is left alone.
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

/** HAProxy's soft stop: it stops listening, and ends with its last connection. */
async function softStop(connection: RuntimeConnection, paths: Paths): Promise<void> {
  const answer = await connection.command('show info')
  const pid = Number(/^Pid: ([0-9]+)$/m.exec(answer.kind === 'answer' ? answer.text : '')?.[1])
  // A process id of another container's would be somebody else here.
  const started = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
  if (started.split('\0').includes(paths.configuration)) process.kill(pid, 'SIGUSR1')
}

/** Open connections of the frontends; undefined where HAProxy is gone. */
async function openSessions(connection: RuntimeConnection): Promise<number | undefined> {
  const answer = await connection.command('show stat')
  if (answer.kind === 'lost') return undefined
  // CSV: proxy, FRONTEND or a server, queued now and most, sessions now (management guide, "Statistics").
  const lines = answer.text.split('\n').map(line => line.split(','))
  const sessionsOf = (name: string) => lines.find(([proxy, part]) => proxy === name && part === 'FRONTEND')?.[4]
  const sessions = sessionsOf(frontendName)
  return sessions === undefined ? undefined : Number(sessions) + Number(sessionsOf(httpsFrontendName) ?? 0)
}

/** Until when HAProxy admits, in seconds since the epoch; 0 where nothing was ever said, undefined where it is gone. */
async function deadlineOf(connection: RuntimeConnection, paths: Paths): Promise<number | undefined> {
  const answer = await connection.command(`show map ${paths.state}`)
  if (answer.kind === 'lost') return undefined
  return Number(new RegExp(` ${deadlineKey} ([0-9]+)$`, 'm').exec(answer.text)?.[1] ?? 0)
}
