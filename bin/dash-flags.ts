/**
 * Parses flags with one hyphen, such as `-add-token` and `-addr :8080`, because similar servers use them. It also
 * accepts two hyphens, and `-addr=:8080`.
 */
import { nearest } from '../services/configuration/nearest.ts'
import { UsageError } from './command.ts'

/** The kind of each flag. A `value` flag requires a value. A `switch` accepts one only after `=`: `-http=false`. */
export type FlagKinds = Readonly<Record<string, 'switch' | 'value'>>

/** Returns the flags by name, without hyphens. The value of a switch without `=` is true. @throws UsageError */
export function readDashFlags(args: readonly string[], kinds: FlagKinds): ReadonlyMap<string, string | true> {
  const flags = new Map<string, string | true>()
  for (let at = 0; at < args.length; at++) {
    const argument = args[at] ?? ''
    const [, name, inlineValue] = /^--?([a-z][a-z-]*)(?:=([\s\S]*))?$/.exec(argument) ?? []
    // The error does not repeat the argument, because it may be a misplaced password.
    if (name === undefined) throw new UsageError(`argument ${at + 1} is not a flag; --help lists them`)
    const kind = Object.hasOwn(kinds, name) ? kinds[name] : undefined
    if (kind === undefined) {
      const meant = nearest(name, Object.keys(kinds))
      throw new UsageError(
        `-${name} is not a flag${meant === undefined ? '; --help lists them' : `; did you mean -${meant}?`}`,
      )
    }
    if (flags.has(name)) throw new UsageError(`-${name} is given twice`)
    if (inlineValue !== undefined) flags.set(name, inlineValue)
    else if (kind === 'switch') flags.set(name, true)
    else {
      const value = args[++at]
      if (value === undefined) throw new UsageError(`-${name} requires a value`)
      flags.set(name, value)
    }
  }
  return flags
}
