/** `espalier size`: lists the sizes of an installation, and resizes a database. */

import { program } from '../../server/program.ts'
import { escapeControls } from '../../values/escape.ts'
import type { Size } from '../api/shapes.ts'
import {
  act,
  type ClientCommand,
  createCommand,
  databaseArgument,
  type WaitOptions,
  waitOptions,
} from '../arguments.ts'
import { inOptions } from '../fields.ts'
import type { Column } from '../output/table.ts'
import { chosenDatabase, type Session } from '../session.ts'
import { waitFor } from '../wait.ts'

/** Returns the price of a size. Assumes that each currency has two decimals. */
function priceOf({ pricing }: Size): string | undefined {
  if (pricing === undefined) return undefined
  const { price_amount: amount, currency, billing_interval: interval } = pricing
  return `${(amount / 100).toFixed(2)} ${currency.toUpperCase()} a ${interval}`
}

const columns: readonly Column<Size>[] = [
  { title: 'NAME', value: ({ name }) => name },
  { title: 'VERSION', value: ({ version }) => version, align: 'right' },
  { title: 'STATUS', value: ({ status }) => status },
  { title: 'CPU', value: ({ cpu_limit: cpu }) => cpu, align: 'right' },
  { title: 'MEMORY', value: ({ memory_limit: memory }) => memory, align: 'right' },
  { title: 'STORAGE', value: ({ storage_size: storage }) => storage, align: 'right' },
  { title: 'CONNECTIONS', value: ({ connections }) => connections, align: 'right' },
  { title: 'PRICE', value: priceOf },
]

const command: ClientCommand = run => {
  const group = createCommand(run, 'size', 'Sizes: CPU, memory and storage of a database.')
  act(run, group.command('list').alias('ls').description('lists the sizes'), async ({ client, printer }) => {
    printer.list(await (await client()).sizes(), columns, ({ name }) => name, 'The installation has no sizes.')
  })
  const setting = group
    .command('set')
    .description('resizes a database; Postgres restarts and is unavailable for some seconds')
    .argument('<size>', `a size from ${program} size list`)
  const resize = async (session: Session, size: string, name: string | undefined, options: WaitOptions) => {
    const { client, database } = await chosenDatabase(session, name)
    await client.resize(database.id, size, 0)
    const read = (wait: number) => client.read(database.id, 'application', wait)
    const last = await waitFor(session, options, { client, first: await read(0), read })
    session.printer.done(escapeControls(`${last.name} is ${last.status}, size ${last.size}`), last.name, last)
  }
  act<WaitOptions>(
    run,
    waitOptions(databaseArgument(setting)),
    (session, [size = '', name], options) => resize(session, size, name, options),
    inOptions({ size: '<size>' }),
  )
  return group
}
export default command
