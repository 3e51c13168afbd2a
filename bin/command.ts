/**
 * What a subcommand of `espalier` is, and the few things all of them do alike: options from flags, one clear line for
 * what the user can mend, a stop on SIGTERM or SIGINT.
 */
import { type ParseArgsConfig, parseArgs } from 'node:util'

/** What the user can mend: printed as one line, without a stack; the exit code is 1 (2 for wrong usage). */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

export type Command = {
  /** One line for the list of commands. */
  summary: string
  /** The whole of `espalier COMMAND --help`. */
  help: string
  /** @returns the exit code */
  run(args: string[]): Promise<number>
}

type Options = NonNullable<ParseArgsConfig['options']>

/** Parses flags strictly: an unknown flag or a stray word is a UsageError. */
export function parseFlags<const O extends Options>(args: string[], options: O) {
  try {
    return parseArgs({ args, options, strict: true, allowPositionals: false }).values
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

/** Resolves with the signal that asks this process to stop. A second one ends it at once. */
export function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise(resolve => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.once(signal, () => {
        process.once(signal, () => process.exit(130))
        resolve(signal)
      })
    }
  })
}
