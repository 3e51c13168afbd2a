/** Lines NAME=VALUE for the programs that read them. A value that a program would read differently is refused. Pure. */
import { CommandFailure } from '../errors.ts'

/** How a value is written: for `eval` in a shell, for an `.env` file, or without quotes. */
export type Quoting = 'shell' | 'file' | 'none'

/** Characters that every shell and every reader of `.env` files keeps without quotes. */
const plain = /^[\w./:@%+=,-]+$/
/** What single quotes do not keep in all readers of `.env` files: python-dotenv reads `\'` and `${NAME}` in them. */
const notInFile = /['\\\p{Cc}]|\$\{/u
/** What dotenv, python-dotenv or Compose change in a value without quotes. */
const notWithoutQuotes = /[\s'"`\\#$\p{Cc}]/u

/** Quotes any text as one word of a POSIX shell. */
export function shellQuoted(text: string): string {
  if (text.includes('\0')) throw new CommandFailure('a value has a null byte, which no variable can hold')
  return plain.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}

/**
 * A line without `export`, or with it for `shell`.
 *
 * - `file`: dotenv, python-dotenv, Docker Compose and `source` read the same value.
 * - `none`: dotenv, python-dotenv, `docker run --env-file` and `kubectl create secret --from-env-file` read the same value.
 *   A shell does not: the `&` of a URL ends a command.
 */
export function envLine(name: string, value: string, quoting: Quoting): string {
  if (quoting === 'shell') return `export ${name}=${shellQuoted(value)}`
  if (quoting === 'file' ? notInFile.test(value) : notWithoutQuotes.test(value))
    throw new CommandFailure(
      `${name} has a character that programs read differently in such a file: use --json, or set the variable yourself`,
    )
  return `${name}=${quoting === 'none' || plain.test(value) ? value : `'${value}'`}`
}
