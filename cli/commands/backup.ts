/** `espalier backup`: lists, creates and deletes backups of databases. */
import { setTimeout as sleep } from 'node:timers/promises'
import { program } from '../../server/program.ts'
import { escapeControls } from '../../values/escape.ts'
import type { Backup } from '../api/shapes.ts'
import {
  act,
  type ClientCommand,
  type ConfirmOptions,
  confirmOption,
  createCommand,
  databaseArgument,
  type WaitOptions,
  waitOptions,
} from '../arguments.ts'
import { confirm } from '../confirm.ts'
import { inOptions } from '../fields.ts'
import { findBackup } from '../find.ts'
import type { Column } from '../output/table.ts'
import { ageOf } from '../output/units.ts'
import { findProject } from '../project.ts'
import { chosenDatabase, type Session } from '../session.ts'
import { waitFor } from '../wait.ts'

type Shown = Backup & { database: string }

const columns: readonly Column<Shown>[] = [
  { title: 'NAME', value: ({ name }) => name },
  { title: 'DATABASE', value: ({ database }) => database },
  { title: 'KIND', value: ({ kind }) => kind },
  { title: 'STATUS', value: ({ status }) => status },
  { title: 'PURPOSE', value: ({ purpose }) => purpose },
  { title: 'CREATED', value: ({ created_at: time }) => ageOf(time) },
]

/** Lists the backups of the database in the argument or in `.espalier`. Without a database, lists all backups. */
async function list(session: Session, name: string | undefined): Promise<void> {
  const client = await session.client()
  const isOfOne = name !== undefined || (await findProject(session.io.directory)) !== undefined
  const chosen = isOfOne ? (await chosenDatabase(session, name)).database : undefined
  const backups = await client.backups(chosen?.id)
  const databases = chosen === undefined ? await client.list() : [chosen]
  const nameOf = (id: string) => databases.find(database => database.id === id)?.name ?? id
  const { printer } = session
  const empty = `No backups yet: ${program} backup create DATABASE`
  if (printer.format === 'json') return printer.list(backups, [], backup => backup.name, empty)
  printer.list(
    backups.map(backup => ({ ...backup, database: nameOf(backup.database_id) })),
    columns,
    backup => backup.name,
    empty,
  )
}

/** The pause between two reads of a backup. The API has no long poll for backups. */
const pauseMs = 1000

type CreateOptions = WaitOptions & { durable?: boolean }

async function create(session: Session, name: string | undefined, options: CreateOptions): Promise<void> {
  const { client, database } = await chosenDatabase(session, name)
  const first = await client.backUp(database.id, options.durable ? 'durable' : 'hot', 0)
  const read = async (wait: number) => {
    if (wait > 0) await sleep(pauseMs)
    return client.readBackup(first.id)
  }
  const backup = await waitFor(session, options, { client, first, read, databaseId: database.id })
  session.printer.done(escapeControls(`${backup.name} is ${backup.status}`), backup.name, backup)
}

const command: ClientCommand = run => {
  const group = createCommand(run, 'backup', 'Backups of databases.')
  const listing = group
    .command('list')
    .alias('ls')
    .description('lists the backups of a database, or of the account if no database is chosen')
  act(run, databaseArgument(listing), (session, [name]) => list(session, name))
  const creation = databaseArgument(group.command('create').description('takes a backup')).option(
    '--durable',
    'takes a durable backup: a copy in the archive, not a snapshot of the volume',
  )
  act<CreateOptions>(
    run,
    waitOptions(creation),
    (session, [name], options) => create(session, name, options),
    inOptions({ kind: '--durable' }),
  )
  const deletion = group
    .command('delete')
    .description('deletes a backup')
    .argument('<backup>', "the backup's name or id")
  act<ConfirmOptions>(run, confirmOption(deletion), async (session, [name = ''], options) => {
    const client = await session.client()
    const backup = await findBackup(client, name)
    await confirm(session, options, backup.name, `This deletes the backup ${escapeControls(backup.name)}.`)
    await client.removeBackup(backup.id)
    session.printer.done(`${escapeControls(backup.name)} is being deleted`, backup.name)
  })
  return group
}
export default command
