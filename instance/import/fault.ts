/** Converts the error output of Postgres's programs to an import fault. */
import type { ImportFault } from './contract.ts'

export class ImportError extends Error {
  override readonly name = 'ImportError'
  readonly fault: ImportFault
  constructor(fault: ImportFault, message: string) {
    super(message)
    this.fault = fault
  }
}

const longest = 500

/** Messages of a server that answers and refuses the login. Another attempt would get the same message. */
const refusals =
  /password authentication failed|authentication failed|no pg_hba\.conf entry|pg_hba\.conf rejects|(role|database) ".*" does not exist|no password supplied|does not support SSL|certificate verify failed|does not match host name|certificate (has )?expired|unsupported|not permitted to log in|permission denied for database|channel binding/i

const lost =
  /could not connect|connection to server .* failed|server closed the connection|terminating connection|connection (reset|refused|timed out|has been closed)|could not (receive|send) data|SSL SYSCALL|SSL connection has been closed|the database system is|timeout expired|lost synchronization|no connection to the server|broken pipe|another command is already in progress|unexpected end of file/i

const full = /no space left on device|could not extend file|disk full/i

/**
 * The error lines, without quoted data. Omits `DETAIL` and `CONTEXT`, which contain rows, and the statement that
 * `pg_restore` repeats.
 */
export function errorLines(text: string): string {
  const lines = text
    .split('\n')
    .filter(line => /(?:error|fatal|panic):/i.test(line) && !/^\s*(?:DETAIL|CONTEXT|Command was|HINT)/i.test(line))
    .map(line => line.replace(/^(?:psql|pg_dump|pg_restore)(?::<stdin>:\d+)?: /, '').trim())
  const chosen = lines.length > 0 ? lines : text.split('\n').filter(line => line.trim() !== '')
  return chosen.slice(0, 3).join('; ').slice(0, longest)
}

/** The error of a program that was connected to the source. */
export function sourceError(text: string): ImportError {
  const message = errorLines(text)
  if (refusals.test(message)) return new ImportError('SourceRefused', `the source refuses the login: ${message}`)
  if (lost.test(message)) return new ImportError('SourceUnreachable', `the source cannot be reached: ${message}`)
  return new ImportError('DumpFailed', `the source cannot be read: ${message || 'the program ended without a message'}`)
}

/** The error of a program that was connected to the target. */
export function targetError(text: string): ImportError {
  const message = errorLines(text)
  if (full.test(text)) return new ImportError('NotEnoughStorage', `the volume of the database is full: ${message}`)
  if (lost.test(message)) return new ImportError('TargetUnavailable', `the new database does not answer: ${message}`)
  return new ImportError(
    'RestoreFailed',
    `the new database refuses an object or data of the source: ${message || 'no message'}`,
  )
}
