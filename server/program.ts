/** The name of this program in hints and help: a user can copy it into the same shell. */
import { basename, delimiter, dirname } from 'node:path'

/** Set by bin/espalier: the path that it was started with. */
const variable = 'ESPALIER_STARTED_AS'
const plain = /^[\w./@+,:~-]+$/
/** Text that single quotes of a shell keep unchanged, without control characters. */
const quotable = /^[^\p{C}']+$/u

/** `started`: the path that the user or the shell started; `path`: the variable PATH. Pure. */
export function programOf(started: string | undefined, path: string | undefined): string {
  if (started === undefined) return 'espalier'
  const name = basename(started)
  if (name === 'kubectl-espalier') return 'kubectl espalier'
  const isOnPath = started.includes('/') && (path ?? '').split(delimiter).includes(dirname(started))
  const typed = isOnPath ? name : started
  if (plain.test(typed)) return typed
  return quotable.test(typed) ? `'${typed}'` : 'espalier'
}

export const program = programOf(process.env[variable], process.env.PATH)
// A program that this one starts can start another espalier.
delete process.env[variable]
