/** `espalier move`: moves a database from another server, with seconds of downtime (docs/import.md). */
import { type Command, parseArguments, UsageError } from '../command.ts'
import type { Move } from './move/copy.ts'

const help = `Moves a database from another Postgres server into a new, empty database, with seconds of downtime.

Usage: espalier move copy [--jobs N]         copies definitions and data; a slot on the source retains later changes
       espalier move follow                  applies the source's changes until you stop it; may be repeated
       espalier move finish [--deadline SECONDS] [--jobs N]
                                             after the source's writers have stopped: completes the new database
       espalier move cancel                  drops the slot and the publication on the source

  --jobs N            how many tables are copied or counted at once (default: 4)
  --deadline SECONDS  how long finish waits for the last changes (default: 60)

Environment:
  SOURCE  the URI of the source: postgresql://user:password@host:port/database?sslmode=require
  TARGET  the URI of the new database: espalier connect NAME --print
  ESPALIER_POSTGRES_PROGRAMS  the directory of psql, pg_dump and pg_restore

An abandoned slot fills the source's disk: end a move with finish or cancel.`

const steps = ['copy', 'follow', 'finish', 'cancel'] as const

function numberOf(flag: string, text: string, most: number): number {
  const value = Number(text)
  if (!Number.isInteger(value) || value < 1 || value > most) throw new UsageError(`--${flag} must be 1 to ${most}`)
  return value
}

const command: Command = {
  help,
  async run(args) {
    const { values, positionals } = parseArguments(args, {
      jobs: { type: 'string', default: '4' },
      deadline: { type: 'string', default: '60' },
    })
    const [name = '', ...more] = positionals
    const step = steps.find(known => known === name)
    if (step === undefined || more.length > 0) throw new UsageError(`exactly one step is required: ${steps.join(', ')}`)
    const jobs = numberOf('jobs', values.jobs, 32)
    const deadlineMs = numberOf('deadline', values.deadline, 86_400) * 1_000
    const { endpointOf } = await import('./move/endpoints.ts')
    const { SOURCE, TARGET } = process.env
    const stopped = new AbortController()
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopped.abort(new Error('stopped')))
    const move: Move = {
      ...{ source: await endpointOf('SOURCE', SOURCE), target: await endpointOf('TARGET', TARGET), jobs },
      ...{ signal: stopped.signal, environment: process.env, report: line => console.log(line) },
    }
    await run(step, move, deadlineMs)
    return 0
  },
}
export default command

async function run(step: (typeof steps)[number], move: Move, deadlineMs: number): Promise<void> {
  if (step === 'copy') return (await import('./move/copy.ts')).copy(move)
  if (step === 'follow') return (await import('./move/follow.ts')).follow(move)
  const { finish, cancel } = await import('./move/finish.ts')
  return step === 'finish' ? finish(move, deadlineMs) : cancel(move)
}
