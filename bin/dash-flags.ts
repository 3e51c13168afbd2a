/**
 * Flags of one hyphen, as `-add-token` and `-addr :8080`, which servers of this kind have. Two hyphens mean the same, and so does `-addr=:8080`.
 */
import { nearest } from '../services/configuration/nearest.ts'
import { UsageError } from './command.ts'

/** Whether a flag takes a value; a switch may be given one as `-http=false`. */
export type FlagKinds = Readonly<Record<string, 'switch' | 'value'>>

/** By name, without hyphens; true: a switch without a value. @throws UsageError */
export function readDashFlags(args: readonly string[], kinds: FlagKinds): ReadonlyMap<string, string | true> {
  const flags = new Map<string, string | true>()
  for (let at = 0; at < args.length; at++) {
    const argument = args[at] ?? ''
    const [, name, given] = /^--?([a-z][a-z-]*)(?:=([\s\S]*))?$/.exec(argument) ?? []
    // Of what is no flag nothing is repeated: it may be a password that stands in the wrong place.
    if (name === undefined) throw new UsageError(`argument ${at + 1} is not a flag; --help lists them`)
    const kind = Object.hasOwn(kinds, name) ? kinds[name] : undefined
    if (kind === undefined) {
      const meant = nearest(name, Object.keys(kinds))
      throw new UsageError(
        `-${name} is not a flag${meant === undefined ? '; --help lists them' : `; is -${meant} meant?`}`,
      )
    }
    if (flags.has(name)) throw new UsageError(`-${name} is given twice`)
    if (given !== undefined) flags.set(name, given)
    else if (kind === 'switch') flags.set(name, true)
    else {
      const value = args[++at]
      if (value === undefined) throw new UsageError(`-${name} takes a value`)
      flags.set(name, value)
    }
  }
  return flags
}
