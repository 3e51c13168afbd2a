/**
 * `espalier instance`: what runs inside an instance's pod, beside Postgres. This folder imports nothing but Node's own
 * modules, so that it can be copied next to a node binary and run there.
 */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { logVariable } from './log/directory.ts'
import type { PrepareOptions } from './prepare.ts'
import { exitCodes, Refusal, refusalOf } from './refusal.ts'

export type { InstanceConfiguration } from './configuration.ts'

const usage = `Usage: espalier instance prepare --data DIR --configuration DIR --tls DIR [--termination-message FILE]
       espalier instance verify --data DIR [--termination-message FILE]
       espalier instance agent --id UUID --host ADDRESS --data DIR --tls DIR --state DIR

prepare makes an instance's volume ready for Postgres to start on.
verify checks a copy of a database, which is changed by it and worth nothing afterwards.
agent samples what the Postgres at this address and its volume are like, until it is stopped.

  --data DIR                  the volume; the data directory is pgdata in it
  --configuration DIR         holds instance.json
  --tls DIR                   holds tls.crt, tls.key and ca.crt
  --id UUID                   whose instance it is
  --host ADDRESS              where Postgres listens, and the agent too
  --state DIR                 what the agent keeps
  --termination-message FILE  where to write a refusal, or what verify found, as JSON

Where ${logVariable} names a directory, Postgres keeps its log on the volume and the agent bounds it.

It exits with 0, or with a code that says why not: ${Object.entries(exitCodes)
  .map(([reason, code]) => `${code} ${reason}`)
  .join(', ')}.
`

type Options = PrepareOptions & { command: Command; help: boolean; terminationMessage: string | undefined }

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
        'termination-message': text,
        help: { type: 'boolean', short: 'h', default: false },
      },
    })
    const { help, data = '', configuration = '', tls = '', 'termination-message': terminationMessage } = values
    if (help) return { command: 'prepare', help, data, configuration, tls, terminationMessage }
    const command = commands.find(name => name === positionals[0])
    if (positionals.length !== 1 || command === undefined) throw new Error('the commands are "prepare" and "verify"')
    const needed = command === 'prepare' ? { data, configuration, tls } : { data }
    for (const [name, value] of Object.entries(needed)) {
      if (value === '') throw new Error(`--${name} is required`)
    }
    return { command, help, data, configuration, tls, terminationMessage }
  } catch (cause) {
    throw new Refusal('usage', cause instanceof Error ? cause.message : String(cause))
  }
}

/**
 * Runs the command; resolves to its exit code. A refusal is one line on standard error and, where asked for, a JSON
 * object `{reason, message}` in the termination message file (Kubernetes keeps 4096 bytes of it).
 */
export async function runInstance(argv: readonly string[]): Promise<number> {
  if (argv[0] === 'agent') return runBeside(argv.slice(1))
  let terminationMessage: string | undefined
  try {
    const options = parse(argv)
    terminationMessage = options.terminationMessage
    if (options.help) {
      process.stdout.write(usage)
      return 0
    }
    if (options.command === 'verify') {
      const { verify } = await import('./verify/index.ts')
      const found = JSON.stringify(verify(options.data))
      process.stdout.write(`${found}\n`)
      if (terminationMessage !== undefined) writeFileSync(terminationMessage, found)
      return 0
    }
    const { prepare } = await import('./prepare.ts')
    const { initialised } = prepare({ ...options, keepsLog: (process.env[logVariable] ?? '') !== '' })
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
        // The exit code and the line above say the same.
      }
    }
    return exitCodes[reason]
  }
}

/** The agent runs until it is stopped, and has no termination message: its log says why it ended. */
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
