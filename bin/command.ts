/**
 * What a subcommand of `espalier` is, and the few things all of them do alike: options from flags, and one clear line
 * for what the user can mend.
 */
import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { type ParseArgsConfig, parseArgs } from 'node:util'
import type { Certificate, CertificateFiles } from '../server/certificate.ts'

/** What the user can mend: printed as one line, without a stack; the exit code is 1 (2 for wrong usage). */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

export type Command = {
  /** One line for the list of commands. */
  summary: string
  /** The whole of `espalier COMMAND --help`. */
  help: string
  /** Of a subcommand of its own that the arguments name; undefined: they name none. */
  helpFor?(args: readonly string[]): Promise<string | undefined>
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

/** As `parseFlags`, with words beside the flags, and apart from them what follows `--`, which is for another program. */
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

/** The level that ESPALIER_LOG names. @throws UsageError */
export function logLevel(usual: 'info' | 'warn'): string {
  const named = process.env.ESPALIER_LOG || usual
  if (logLevels.includes(named)) return named
  throw new UsageError(`ESPALIER_LOG must be one of ${logLevels.join(', ')}, not ${JSON.stringify(named)}`)
}

/** The text of a file that a flag names. @throws UsageError that names the flag, and not the way to the file */
export async function readFlagFile(flag: string, path: string): Promise<string> {
  return await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`${flag}: cannot read ${basename(path)} (${error.code})`)
  })
}

/** The certificate of the flags --certificate and --key, and its key. @throws UsageError */
export const readCertificateFlags = async (files: CertificateFiles): Promise<Certificate> => ({
  cert: await readFlagFile('--certificate', files.cert),
  key: await readFlagFile('--key', files.key),
})
