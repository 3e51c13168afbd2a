/**
 * The interface of `espalier` subcommands, and their shared helpers. The helpers throw a UsageError for an error that
 * the user can fix. `main` prints it as one line.
 */
import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { type ParseArgsConfig, parseArgs } from 'node:util'
import type { Certificate, CertificateFiles } from '../server/certificate.ts'
import { UsageError } from '../server/usage-error.ts'

export { UsageError }

export type Command = {
  /** The complete output of `espalier COMMAND --help`. */
  help: string
  /** Returns the help of the nested subcommand that the arguments name. Returns undefined if they name none. */
  helpFor?(args: readonly string[]): Promise<string | undefined>
  /** @returns the exit code */
  run(args: string[]): Promise<number>
}

type Options = NonNullable<ParseArgsConfig['options']>

/** @throws UsageError if a flag is unknown, or if an argument is neither a flag nor its value */
export function parseFlags<const O extends Options>(args: string[], options: O) {
  try {
    return parseArgs({ args, options, strict: true, allowPositionals: false }).values
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

/**
 * Parses flags and positional arguments. Returns the arguments after `--`, which are for another program, as `rest`.
 * @throws UsageError if a flag is unknown
 */
export function parseArguments<const O extends Options>(args: string[], options: O) {
  const end = args.indexOf('--')
  const own = end < 0 ? args : args.slice(0, end)
  try {
    const { values, positionals } = parseArgs({ args: own, options, strict: true, allowPositionals: true })
    return { values, positionals, rest: end < 0 ? [] : args.slice(end + 1) }
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']

/** Returns ESPALIER_LOG, or `defaultLevel` if it is not set. @throws UsageError */
export function logLevel(defaultLevel: 'info' | 'warn'): string {
  const level = process.env.ESPALIER_LOG || defaultLevel
  if (logLevels.includes(level)) return level
  throw new UsageError(`ESPALIER_LOG must be one of ${logLevels.join(', ')}, not ${JSON.stringify(level)}`)
}

/** Reads the file that a flag names. @throws UsageError that names the flag and the file, but not its directory */
export async function readFlagFile(flag: string, path: string): Promise<string> {
  return await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`${flag}: cannot read ${basename(path)} (${error.code})`)
  })
}

/** Reads the files of the flags --certificate and --key. @throws UsageError */
export const readCertificateFlags = async (files: CertificateFiles): Promise<Certificate> => ({
  cert: await readFlagFile('--certificate', files.cert),
  key: await readFlagFile('--key', files.key),
})
