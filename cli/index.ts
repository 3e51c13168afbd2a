/** Runs the commands that call the API. Loads the module of a command only when the command is called. */

import { program } from '../server/program.ts'
import { escapeControls, escapeLines } from '../values/escape.ts'
import type { ClientCommand, Run } from './arguments.ts'
import { ApiFailure, exitCodeOf, exitCodes } from './errors.ts'
import { type Io, processIo } from './io.ts'

type Entry = readonly [summary: string, load: () => Promise<{ default: ClientCommand }>]

const state = (name: 'suspend' | 'resume' | 'rotate') => async () => ({
  default: (await import('./commands/state.ts'))[name],
})

export const clientCommands: Readonly<Record<string, Entry>> = {
  login: ['log in to an API, show and choose profiles', () => import('./commands/login.ts')],
  logout: ['delete a profile', () => import('./commands/logout.ts')],
  db: ['create, list, connect to and delete databases', () => import('./commands/db.ts')],
  branch: ['create, list, check out and delete branches', () => import('./commands/branch.ts')],
  sql: ['run SQL statements; needs no psql', () => import('./commands/sql.ts')],
  env: ['print environment variables for database drivers', () => import('./commands/env.ts')],
  allow: ['list, add and remove the addresses that may connect', () => import('./commands/allow.ts')],
  backup: ['take, list and delete backups', () => import('./commands/backup.ts')],
  restore: ['restore a database to a backup, a time or a branch', () => import('./commands/restore.ts')],
  logs: ['print or follow the log', () => import('./commands/logs.ts')],
  metrics: ['print measurements', () => import('./commands/metrics.ts')],
  tasks: ['list operations', () => import('./commands/tasks.ts')],
  audit: ['list the audit log: who tried to change what, and the result', () => import('./commands/audit.ts')],
  size: ['list sizes, and resize a database', () => import('./commands/size.ts')],
  suspend: ['stop a database and keep its data', state('suspend')],
  resume: ['start a suspended database', state('resume')],
  rotate: ['replace the password of a role', state('rotate')],
  services: ['add, list and remove the services mcp, rest and rag', () => import('./commands/services.ts')],
  open: ['open the console in a browser', () => import('./commands/open.ts')],
  completion: ['print the completion script for bash, zsh or fish', () => import('./commands/completion.ts')],
}

/** The hidden command that the completion scripts call. */
const completing = '__complete'

/**
 * Prints the error, and returns its exit code. Escapes the error's text, which can be from a server, a file or the
 * command line.
 */
async function report({ io, rewrite, isVerbose }: Run, name: string, error: unknown): Promise<number> {
  const { CommanderError } = await import('commander')
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return exitCodes.ok
    if (error.code !== 'commander.help')
      io.errors.write(
        `espalier ${name}: ${escapeControls(error.message.replace(/^error: /, '').replaceAll('\n', ' '))}\n`,
      )
    return exitCodes.usage
  }
  if (io.environment.ESPALIER_DEBUG)
    io.errors.write(`${escapeLines(String(error instanceof Error ? error.stack : error))}\n`)
  const message = error instanceof Error ? error.message : String(error)
  const shown = error instanceof ApiFailure && rewrite !== undefined ? rewrite(message) : message
  io.errors.write(`espalier ${name}: ${escapeLines(shown)}\n`)
  if (isVerbose && error instanceof ApiFailure)
    io.errors.write(`${escapeControls(`request: ${error.request}; status: ${error.status ?? 'no response'}`)}\n`)
  const exitCode = exitCodeOf(error)
  if (exitCode === exitCodes.notAuthorised)
    io.errors.write(`run ${program} login to store a token, or ${program} login --status to show the profile in use\n`)
  return exitCode
}

type ClientOptions = {
  io?: Io
  /** Names of the program's other commands (bin/main.ts). Only completion uses them. */
  others?: readonly string[]
  completionLimitMs?: number | undefined
}

/** @returns one of `exitCodes`, or the exit code of the program that the command ran */
export async function runClient(name: string, args: readonly string[], around: ClientOptions = {}): Promise<number> {
  const { io = processIo(), others = [], completionLimitMs: limitMs } = around
  if (name === completing) {
    const { complete } = await import('./completion/index.ts')
    await complete(io, args.slice(args[0] === '--' ? 1 : 0), clientCommands, { others, limitMs })
    // Exit now: a request that exceeded the limit can still be open.
    io.exit?.(exitCodes.ok)
    return exitCodes.ok
  }
  const [, load] = (Object.hasOwn(clientCommands, name) ? clientCommands[name] : undefined) ?? []
  if (load === undefined) {
    io.errors.write(
      `espalier: unknown command ${escapeControls(JSON.stringify(name))}; run ${program} --help to list the commands\n`,
    )
    return exitCodes.usage
  }
  // EPIPE is not an error: a program such as `head` can close the pipe early.
  io.output.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    io.exit?.(exitCodes.ok)
  })
  const end = args.indexOf('--')
  const run: Run = { io, rest: end < 0 ? [] : args.slice(end + 1), exitCode: exitCodes.ok }
  try {
    const command = (await load()).default(run)
    await command.parseAsync(end < 0 ? args : args.slice(0, end), { from: 'user' })
    return run.exitCode
  } catch (error) {
    return await report(run, name, error)
  }
}
