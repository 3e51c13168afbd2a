/** Formats lines NAME=VALUE for other programs. Refuses a value that some of these programs would change. Pure. */
import { CommandFailure } from '../errors.ts'

/** The format of a value: for `eval` in a shell, for an `.env` file, or without quotes. */
export type Quoting = 'shell' | 'file' | 'none'

/** Values that need no quotes: no shell and no reader of `.env` files changes them. */
const plain = /^[\w./:@%+=,-]+$/
/** Characters that some readers of `.env` files change in single quotes: python-dotenv replaces `\'` and `${NAME}`. */
const notInFile = /['\\\p{Cc}]|\$\{/u
/** Characters that dotenv, python-dotenv or Compose change in a value without quotes. */
const notWithoutQuotes = /[\s'"`\\#$\p{Cc}]/u

/** Quotes a text as one word of a POSIX shell. @throws CommandFailure if the text has a null byte */
export function shellQuoted(text: string): string {
  if (text.includes('\0')) throw new CommandFailure('a value has a null byte, which no variable can contain')
  return plain.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}

/**
 * Returns the line for a variable. With `shell`, the line begins with `export`.
 *
 * - `file`: dotenv, python-dotenv, Docker Compose and `source` read the same value.
 * - `none`: dotenv, python-dotenv, `docker run --env-file` and `kubectl create secret --from-env-file` read the same value.
 *   A shell does not read the same value: the `&` of a URL ends a command.
 */
export function envLine(name: string, value: string, quoting: Quoting): string {
  if (quoting === 'shell') return `export ${name}=${shellQuoted(value)}`
  if (quoting === 'file' ? notInFile.test(value) : notWithoutQuotes.test(value))
    throw new CommandFailure(
      `${name} has a character that programs read differently in an .env file: use --json, or set the variable yourself`,
    )
  return `${name}=${quoting === 'none' || plain.test(value) ? value : `'${value}'`}`
}
