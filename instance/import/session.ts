/** A session in a server: one `psql` that runs one statement after another. */
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Endpoint } from './contract.ts'
import { environmentOf, type Files, type Programs, start } from './programs.ts'

export type Session = {
  /** Runs statements and returns the value of the one statement that returns a value. */
  value(sql: string): Promise<string>
  /** Returns the one value, parsed as JSON. The statement must return `jsonb`, which has no line breaks. */
  json<T>(sql: string): Promise<T>
  close(): void
}

/** Run in every session, so that no setting of server or role ends it, and no name is resolved in a user's schema. */
export const prelude = `SET statement_timeout = 0; SET lock_timeout = '60s'; SET idle_in_transaction_session_timeout = 0;
SET search_path = pg_catalog; SET row_security = off;
DO $$ BEGIN IF current_setting('idle_session_timeout', true) IS NOT NULL THEN SET idle_session_timeout = 0; END IF; END $$;
DO $$ BEGIN IF current_setting('transaction_timeout', true) IS NOT NULL THEN SET transaction_timeout = 0; END IF; END $$;`

export function openSession(
  { directory }: Programs,
  endpoint: Endpoint,
  options: { files: Files; signal: AbortSignal; failed: (text: string) => Error },
): Session {
  const { files, signal, failed } = options
  const args = ['--no-psqlrc', '--quiet', '--no-align', '--tuples-only', '--no-password', '--set=ON_ERROR_STOP=1']
  const env = environmentOf(endpoint, files)
  const { child, ended } = start(join(directory, 'psql'), args, { env, signal, failed, stdio: ['pipe', 'pipe'] })
  const { stdin, stdout } = child
  if (stdin === null || stdout === null) throw new Error('psql has no standard input and output')
  stdin.on('error', () => {}) // psql has ended: `ended` has the reason
  const waiting: {
    endMarker: string
    lines: string[]
    resolve: (lines: string[]) => void
    reject: (error: unknown) => void
  }[] = []
  createInterface({ input: stdout }).on('line', line => {
    const [first] = waiting
    if (first === undefined) return
    if (line === first.endMarker) waiting.shift()?.resolve(first.lines)
    else first.lines.push(line)
  })
  let over: { error: unknown } | undefined
  const end = (error: unknown) => {
    over = { error }
    for (const { reject } of waiting.splice(0)) reject(error)
  }
  ended.then(() => end(failed('the session was closed')), end)

  const value = (sql: string) =>
    new Promise<string[]>((resolve, reject) => {
      if (over !== undefined) return reject(over.error)
      const endMarker = `end-${crypto.randomUUID()}`
      waiting.push({ endMarker, lines: [], resolve, reject })
      stdin.write(`${sql};\n\\echo ${endMarker}\n`)
    }).then(lines => lines.join('\n'))
  value(prelude).catch(() => {}) // the next statement fails in the same way
  return {
    value,
    json: async <T>(sql: string) => JSON.parse(await value(sql)) as T,
    close: () => stdin.end(),
  }
}
