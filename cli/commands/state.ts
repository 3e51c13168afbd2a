/** `espalier suspend`, `resume` and `rotate`: start an operation of one database. */
import { Option } from 'commander'
import { escapeControls } from '../../values/escape.ts'
import type { Client } from '../api/client.ts'
import type { Database } from '../api/shapes.ts'
import {
  act,
  type ClientCommand,
  createCommand,
  databaseArgument,
  type Run,
  type WaitOptions,
  waitOptions,
} from '../arguments.ts'
import { type Role, roles } from '../connect/connection.ts'
import { chosenDatabase, type Session } from '../session.ts'
import { waitFor } from '../wait.ts'

/** Starts the operation. With `--wait`, waits until the operation ends. */
async function operate(
  session: Session,
  name: string | undefined,
  options: WaitOptions,
  start: (client: Client, database: Database) => Promise<unknown>,
): Promise<void> {
  const { client, database } = await chosenDatabase(session, name)
  await start(client, database)
  const read = (wait: number) => client.read(database.id, 'application', wait)
  const last = await waitFor(session, options, { client, first: await read(0), read })
  session.printer.done(escapeControls(`${last.name} is ${last.status}`), last.name, last)
}

const stateCommand =
  (action: 'suspend' | 'resume', description: string): ClientCommand =>
  (run: Run) =>
    act<WaitOptions>(
      run,
      waitOptions(databaseArgument(createCommand(run, action, description))),
      (session, [name], options) => operate(session, name, options, (client, { id }) => client.act(id, action, 0)),
    )

export const suspend = stateCommand(
  'suspend',
  'Stops a database and keeps its data; connections are refused until it is resumed.',
)
export const resume = stateCommand('resume', 'Starts a suspended database.')

export const rotate: ClientCommand = run => {
  const parsed = databaseArgument(createCommand(run, 'rotate', 'Replaces the password of a role; sessions stay open.'))
  return act<WaitOptions & { role: Role }>(
    run,
    waitOptions(parsed.addOption(new Option('--role <role>', 'the role').choices(roles).default('app'))),
    (session, [name], options) =>
      operate(session, name, options, (client, { id }) => client.rotate(id, options.role, 0)),
  )
}
