/**
 * Flags with one hyphen, such as `-add-token` and `-addr :8080`, as used by similar servers. Two hyphens mean the same,
 * and so does `-addr=:8080`.
 */
import { nearest } from '../services/configuration/nearest.ts'
import { UsageError } from './command.ts'

/** Whether a flag takes a value; a switch may have one as in `-http=false`. */
export type FlagKinds = Readonly<Record<string, 'switch' | 'value'>>

/** By name, without hyphens; true: a switch without a value. @throws UsageError */
export function readDashFlags(args: readonly string[], kinds: FlagKinds): ReadonlyMap<string, string | true> {
  const flags = new Map<string, string | true>()
  for (let at = 0; at < args.length; at++) {
    const argument = args[at] ?? ''
    const [, name, given] = /^--?([a-z][a-z-]*)(?:=([\s\S]*))?$/.exec(argument) ?? []
    // An unknown word is not repeated: it may be a misplaced password.
    if (name === undefined) throw new UsageError(`argument ${at + 1} is not a flag; --help lists them`)
    const kind = Object.hasOwn(kinds, name) ? kinds[name] : undefined
    if (kind === undefined) {
      const meant = nearest(name, Object.keys(kinds))
      throw new UsageError(
        `-${name} is not a flag${meant === undefined ? '; --help lists them' : `; did you mean -${meant}?`}`,
      )
    }
    if (flags.has(name)) throw new UsageError(`-${name} is given twice`)
    if (given !== undefined) flags.set(name, given)
    else if (kind === 'switch') flags.set(name, true)
    else {
      const value = args[++at]
      if (value === undefined) throw new UsageError(`-${name} requires a value`)
      flags.set(name, value)
    }
  }
  return flags
}
