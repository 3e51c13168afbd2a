/**
 * `espalier instance`: what runs inside an instance's pod, beside Postgres. This folder imports nothing but Node's own
 * modules, so that it can be copied next to a node binary and run there.
 */
// @ts-nocheck

import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import type { PrepareOptions } from './prepare.ts'
import { exitCodes, Refusal, refusalOf } from './refusal.ts'

export type { InstanceConfiguration } from './configuration.ts'

const usage = `Usage: espalier instance prepare --data DIR --configuration DIR --tls DIR [--termination-message FILE]

Makes an instance's volume ready for Postgres to start on.

  --data DIR                  the volume; the data directory is pgdata in it
  --configuration DIR         holds instance.json
  --tls DIR                   holds tls.crt, tls.key and ca.crt
  --termination-message FILE  where to write a refusal, as JSON

It exits with 0, or with a code that says why not: ${Object.entries(exitCodes)
  .map(([reason, code]) => `${code} ${reason}`)
  .join(', ')}.
`

function parse(argv: readonly string[]): PrepareOptions & { help: boolean; terminationMessage: string | undefined } {
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
    if (help) return { help, data, configuration, tls, terminationMessage }
    if (positionals.length !== 1 || positionals[0] !== 'prepare') throw new Error('the one command is "prepare"')
    for (const [name, value] of Object.entries({ data, configuration, tls })) {
      if (value === '') throw new Error(`--${name} is required`)
    }
    return { help, data, configuration, tls, terminationMessage }
  } catch (cause) {
    throw new Refusal('usage', cause instanceof Error ? cause.message : String(cause))
  }
}

/**
 * Runs the command; resolves to its exit code. A refusal is one line on standard error and, where asked for, a JSON
 * object `{reason, message}` in the termination message file (Kubernetes keeps 4096 bytes of it).
 */
export async function runInstance(argv: readonly string[]): Promise<number> {
  let terminationMessage: string | undefined
  try {
    const options = parse(argv)
    terminationMessage = options.terminationMessage
    if (options.help) {
      process.stdout.write(usage)
      return 0
    }
    const { prepare } = await import('./prepare.ts')
    const { initialised } = prepare(options)
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
