/** `espalier metrics`: prints the newest value, mean, minimum and maximum of each series. */
import { Option } from 'commander'
import { printedJson } from '../../values/escape.ts'
import type { Series } from '../api/shapes.ts'
import { act, branchOption, type ClientCommand, createCommand, databaseArgument } from '../arguments.ts'
import { inOptions } from '../fields.ts'
import type { Column } from '../output/table.ts'
import { chosenPlace, type Session } from '../session.ts'
import { since as parseSince } from './logs.ts'

type Line = { series: string; column: string; last?: number | undefined; least: number; most: number; mean: number }

const shown = (value: number | undefined): string | undefined =>
  value === undefined ? undefined : String(Math.round(value * 100) / 100)

const columns: readonly Column<Line>[] = [
  { title: 'SERIES', value: ({ series }) => series },
  { title: 'VALUE', value: ({ column }) => column },
  { title: 'LAST', value: ({ last }) => shown(last), align: 'right' },
  { title: 'MEAN', value: ({ mean }) => shown(mean), align: 'right' },
  { title: 'MIN', value: ({ least }) => shown(least), align: 'right' },
  { title: 'MAX', value: ({ most }) => shown(most), align: 'right' },
]

/** The table omits this column, because a mean or maximum of start times has no meaning. */
const startTime = 'start_time_seconds'

/** Returns a line for each column with measurements. Pure. */
export const linesOf = (all: readonly Series[]): Line[] =>
  all.flatMap(({ name, columns: names, values }) =>
    names.flatMap((column, at) => {
      const numbers = values.map(row => row[at]).filter(value => typeof value === 'number')
      if (numbers.length === 0 || column === startTime) return []
      const sum = numbers.reduce((total, value) => total + value, 0)
      const [least, most] = [Math.min(...numbers), Math.max(...numbers)]
      return [{ series: name, column, last: numbers.at(-1), least, most, mean: sum / numbers.length }]
    }),
  )

type Options = { branch?: string; service?: string; since?: string; interval?: string }

const command: ClientCommand = run => {
  const parsed = branchOption(
    databaseArgument(createCommand(run, 'metrics', 'Prints measurements (default: of the last two hours).')),
  )
    .addOption(new Option('--service <type>', 'measurements of a service').choices(['mcp', 'rest', 'rag']))
    .option('--since <time>', 'only measurements since this time: 10m, 2h or 2026-01-31T12:00:00Z', parseSince)
    .option('--interval <interval>', 'the interval between measurements, such as "5 minutes"')
  const print = async (session: Session, name: string | undefined, options: Options) => {
    const { branch: branchName, service, since, interval } = options
    const { client, database, branch } = await chosenPlace(session, name, branchName)
    const place = { id: database.id, branchId: branch?.id }
    const answer = await client.metrics(place, { service, interval, start_time: since })
    const { printer } = session
    if (printer.format === 'json') printer.line(printedJson(answer, 2))
    else
      printer.list(
        linesOf(answer.series),
        columns,
        ({ series, column }) => `${series}.${column}`,
        'No measurements yet.',
      )
  }
  const fields = inOptions({ service: '--service', start_time: '--since', interval: '--interval' })
  return act<Options>(run, parsed, (session, [name], options) => print(session, name, options), fields)
}
export default command
