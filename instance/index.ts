/**
 * `espalier instance`: runs inside an instance's pod, next to Postgres. This folder imports only Node's own modules, so
 * that it can be copied next to a node binary and run there.
 */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { logVariable } from './log/directory.ts'
import type { PrepareOptions } from './prepare.ts'
import { exitCodes, Refusal, refusalOf } from './refusal.ts'

export type { InstanceConfiguration } from './configuration.ts'

const usage = `Usage: espalier instance prepare --data DIR --configuration DIR --tls DIR [--termination-message FILE]
       espalier instance verify --data DIR [--recover JSON] [--termination-message FILE]
       espalier instance import --configuration DIR [--termination-message FILE]
       espalier instance agent --id UUID --host ADDRESS --data DIR --tls DIR --state DIR
                                [--archive URL --archive-tls DIR --archive-markers DIR]

prepare prepares the volume of an instance, so that Postgres can start.
verify checks a copy of a database. The check changes the copy, so delete the copy afterwards.
import copies another Postgres into an empty database, as import.json in the configuration directory specifies.
agent measures Postgres at this address and its volume, until it is stopped.

  --data DIR                  the volume; its directory pgdata is the data directory
  --configuration DIR         contains instance.json or import.json
  --tls DIR                   contains tls.crt, tls.key and ca.crt
  --id UUID                   the id of the instance's database or branch
  --host ADDRESS              the address on which Postgres and the agent listen
  --state DIR                 the directory for the agent's files
  --archive URL               the archive to which the agent sends WAL and base backups: https://HOST:PORT
  --archive-tls DIR           contains archive.crt, archive.key and ca.crt
  --archive-markers DIR       the directory for the marker files of archived WAL, which archive_command reads
  --recover JSON              the base backup that verify recovers first, and the position up to which it replays WAL
  --termination-message FILE  the file for a refusal, or for the result of verify, as JSON

If instance.json or --recover names a base backup, prepare and verify restore it to the empty volume. They read the archive with the
certificate in the directory that ESPALIER_ARCHIVE_SOURCE_TLS names.

If ${logVariable} names a directory, Postgres writes its log to the volume, and the agent limits the size of the log.

Exit code 0: success. Other exit codes: ${Object.entries(exitCodes)
  .map(([reason, code]) => `${code} ${reason}`)
  .join(', ')}.
`

type Options = PrepareOptions & {
  command: Command
  help: boolean
  recover: string | undefined
  terminationMessage: string | undefined
}

const commands = ['prepare', 'verify'] as const
type Command = (typeof commands)[number]

function parse(argv: readonly string[]): Options {
  const text = { type: 'string' } as const
  try {
    const { values, positionals } = parseArgs({
      args: [...argv],
      allowPositionals: true,
      options: {
        data: text,
        configuration: text,
        tls: text,
        recover: text,
        'termination-message': text,
        help: { type: 'boolean', short: 'h', default: false },
      },
    })
    const { help, data = '', configuration = '', tls = '', recover, 'termination-message': terminationMessage } = values
    const given = { help, data, configuration, tls, recover, terminationMessage }
    if (help) return { command: 'prepare', ...given }
    const command = commands.find(name => name === positionals[0])
    if (positionals.length !== 1 || command === undefined)
      throw new Error('the command must be prepare, verify, import or agent')
    const needed = command === 'prepare' ? { data, configuration, tls } : { data }
    for (const [name, value] of Object.entries(needed)) {
      if (value === '') throw new Error(`--${name} is required`)
    }
    if (command === 'prepare' && recover !== undefined) throw new Error('--recover is for verify')
    return { command, ...given }
  } catch (cause) {
    throw new Refusal('usage', cause instanceof Error ? cause.message : String(cause))
  }
}

/**
 * Runs the command and resolves to its exit code. A refusal is one line on standard error. If requested, it is also a
 * JSON object `{reason, message}` in the termination message file (Kubernetes keeps 4096 bytes of it).
 */
export async function runInstance(argv: readonly string[]): Promise<number> {
  if (argv[0] === 'agent') return runBeside(argv.slice(1))
  if (argv[0] === 'import') return runImport(argv.slice(1))
  let terminationMessage: string | undefined
  try {
    const options = parse(argv)
    terminationMessage = options.terminationMessage
    if (options.help) {
      process.stdout.write(usage)
      return 0
    }
    if (options.command === 'verify') {
      const { verifyCopy } = await import('./verify/recovered.ts')
      const found = JSON.stringify(await verifyCopy(options.data, options.recover))
      process.stdout.write(`${found}\n`)
      if (terminationMessage !== undefined) writeFileSync(terminationMessage, found)
      return 0
    }
    const { prepare } = await import('./prepare.ts')
    const { archiveTlsVariable } = await import('./recovery/source.ts')
    const { initialised } = await prepare({
      ...options,
      keepsLog: (process.env[logVariable] ?? '') !== '',
      archiveTls: process.env[archiveTlsVariable] || undefined,
    })
    if (initialised) process.stdout.write('initialised a new data directory\n')
    return 0
  } catch (error) {
    const { reason, message } = refusalOf(error)
    const line = message.replaceAll(/\s+/g, ' ').slice(0, 1000)
    process.stderr.write(`espalier instance: ${reason}: ${line}\n`)
    if (reason === 'usage') process.stderr.write(usage)
    if (terminationMessage !== undefined) {
      try {
        writeFileSync(terminationMessage, JSON.stringify({ reason, message: line }))
      } catch {
        // The termination message could not be written. The exit code and the line above are sufficient.
      }
    }
    return exitCodes[reason]
  }
}

/** The agent runs until it is stopped. It has no termination message: its log has the reason of its end. */
async function runBeside(argv: readonly string[]): Promise<number> {
  const { runAgent } = await import('./agent/command.ts')
  try {
    await runAgent(argv)
    return 0
  } catch (error) {
    process.stderr.write(`espalier instance: agent: ${error instanceof Error ? error.message : error}\n`)
    return exitCodes.internal
  }
}

/** The import writes its outcome itself, also if it fails. */
async function runImport(argv: readonly string[]): Promise<number> {
  const { runImportCommand } = await import('./import/command.ts')
  try {
    return await runImportCommand(argv)
  } catch (error) {
    process.stderr.write(`espalier instance: import: ${error instanceof Error ? error.message : error}\n`)
    return exitCodes.internal
  }
}
