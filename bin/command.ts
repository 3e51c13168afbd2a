/**
 * The interface of `espalier` subcommands, and what they share: options from flags, and one clear line for errors that
 * the user can fix.
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
  /** The sub-subcommand that the arguments name; undefined if none. */
  helpFor?(args: readonly string[]): Promise<string | undefined>
  /** @returns the exit code */
  run(args: string[]): Promise<number>
}

type Options = NonNullable<ParseArgsConfig['options']>

/** Parses flags strictly: an unknown flag or an extra word is a UsageError. */
export function parseFlags<const O extends Options>(args: string[], options: O) {
  try {
    return parseArgs({ args, options, strict: true, allowPositionals: false }).values
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

/**
 * Like `parseFlags`, but allows words beside the flags, and returns separately the words after `--`, which are for
 * another program.
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

/** The level of the log: ESPALIER_LOG, else the usual one. @throws UsageError */
export function logLevel(usual: 'info' | 'warn'): string {
  const named = process.env.ESPALIER_LOG || usual
  if (logLevels.includes(named)) return named
  throw new UsageError(`ESPALIER_LOG must be one of ${logLevels.join(', ')}, not ${JSON.stringify(named)}`)
}

/** The text of a file that a flag names. @throws UsageError that names the flag, without the directory */
export async function readFlagFile(flag: string, path: string): Promise<string> {
  return await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`${flag}: cannot read ${basename(path)} (${error.code})`)
  })
}

/** The certificate and key of the flags --certificate and --key. @throws UsageError */
export const readCertificateFlags = async (files: CertificateFiles): Promise<Certificate> => ({
  cert: await readFlagFile('--certificate', files.cert),
  key: await readFlagFile('--key', files.key),
})
