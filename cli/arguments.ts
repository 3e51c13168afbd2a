/** Builds the client's commands with commander, and adds the common options. */
import { Command, InvalidArgumentError } from 'commander'
import { program } from '../server/program.ts'
import type { Rewrite } from './fields.ts'
import type { Io } from './io.ts'
import { type CommonOptions, openSession, type Session } from './session.ts'

/** The state of one run of the program. */
export type Run = {
  io: Io
  /** Arguments after `--`, for another program. */
  rest: readonly string[]
  /** The exit code: 0, unless an action sets another code. */
  exitCode: number
  /** Replaces field names in API errors with the command's options. */
  rewrite?: Rewrite
  /** Whether an error names the request that failed. */
  isVerbose?: boolean
}

/** Builds the parser of one command. */
export type ClientCommand = (run: Run) => Command

/** Creates a command or a group of commands. On an error, the parser throws instead of ending the process. */
export function createCommand({ io }: Run, name: string, description: string): Command {
  return new Command(`${program} ${name}`)
    .description(description)
    .exitOverride()
    .helpCommand(false)
    .configureOutput({
      writeOut: text => io.output.write(text),
      writeErr: text => io.errors.write(text),
      // `runClient` prints the error, with the command's name.
      outputError: () => {},
      getOutHelpWidth: () => io.output.columns ?? 100,
      getErrHelpWidth: () => io.errors.columns ?? 100,
    })
}

type Arguments = readonly (string | undefined)[]
type Action<O> = (session: Session, args: Arguments, options: O) => Promise<void>

/** Adds the common options and the action to a command. `O`: the command's other options. */
export function act<O extends object = object>(
  run: Run,
  command: Command,
  action: Action<O>,
  rewrite?: Rewrite,
): Command {
  return command
    .option('--json', 'prints the result as JSON')
    .option('-q, --quiet', 'prints only names, ids or values')
    .option('--profile <name>', `a profile from ${program} login; "local" means the embedded installation`)
    .option('--tenant <id>', 'the tenant of the embedded installation (default: demo)')
    .option('--verbose', 'if a request fails, prints its method, path and status')
    .action(async () => {
      const options = command.opts<O & CommonOptions>()
      Object.assign(run, { rewrite, isVerbose: options.verbose === true || options.json === true })
      await action(openSession(run.io, options), command.processedArgs as Arguments, options)
    })
}

/** Parses the value of an option: a whole number from `least` to `most`. */
export const integer =
  (least: number, most: number) =>
  (text: string): number => {
    const value = Number(text)
    if (/^[0-9]{1,9}$/.test(text) && value >= least && value <= most) return value
    throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`)
  }

/** Parses the value of an option: a time as the API accepts it. */
export function time(text: string): string {
  const isComplete = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/i.test(text)
  if (isComplete && !Number.isNaN(Date.parse(text))) return text
  throw new InvalidArgumentError('It must be a date and time with a time zone, such as 2026-01-31T12:00:00Z.')
}

export const branchOption = (command: Command): Command =>
  command.option('-b, --branch <name>', 'the branch: its name, display name or id')

export const databaseArgument = (command: Command): Command =>
  command.argument('[database]', "the database's name or id (default: the database in .espalier)")

export const databaseOption = (command: Command): Command =>
  command.option('-d, --database <name>', "the database's name or id (default: the database in .espalier)")

export type WaitOptions = { wait?: boolean; timeout: number }

const defaultTimeout = 600
const longestTimeout = 86_400

export const waitOptions = (command: Command): Command =>
  command
    .option('--wait', 'waits until the operation ends')
    .option('--timeout <seconds>', 'how long --wait waits', integer(1, longestTimeout), defaultTimeout)

export type ConfirmOptions = { yes?: boolean }

export const confirmOption = (command: Command): Command => command.option('-y, --yes', 'does not ask for confirmation')
