/**
 * The number of connections that have not logged in, as HAProxy's script counts them (logins.ts). The agent reads them
 * over a separate connection, so that an error here does not cause another push of the maps.
 */
import type { LoginCount, LoginCounts } from '../logins.ts'
import { loginsCommand } from './logins.ts'
import { connectRuntime, type RuntimeLimits } from './runtime.ts'

/** Metrics have a short timeout. A line has at most 30 bytes, and there are at most 65,535 ports. */
const limits: RuntimeLimits = { answerMs: 1_000, answerBytes: 2 * 1024 * 1024 }

/** Returns undefined if HAProxy does not respond, or not as expected. */
export async function readLoginCounts(path: string): Promise<LoginCounts | undefined> {
  const connection = await connectRuntime(path, limits)
  if ('kind' in connection) return undefined
  const answer = await connection.command(loginsCommand)
  connection.close()
  return answer.kind === 'answer' ? readLogins(answer.text) : undefined
}

/** Pure. */
function readLogins(text: string): LoginCounts | undefined {
  const counts = new Map<number, LoginCount>()
  for (const line of text === '' ? [] : text.split('\n')) {
    const [, port, underway, waiting] = /^([0-9]{1,5}) ([0-9]{1,9}) ([0-9]{1,9})$/.exec(line) ?? []
    if (port === undefined) return undefined
    counts.set(Number(port), { underway: Number(underway), waiting: Number(waiting) })
  }
  return counts
}
