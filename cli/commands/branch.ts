/** `espalier branch`: manages the branches of a database, and chooses the branch of a folder. */

import { program } from '../../server/program.ts'
import { escapeControls } from '../../values/escape.ts'
import type { Branch } from '../api/shapes.ts'
import {
  act,
  type ClientCommand,
  type ConfirmOptions,
  confirmOption,
  createCommand,
  databaseArgument,
  databaseOption,
  type Run,
  time,
  type WaitOptions,
  waitOptions,
} from '../arguments.ts'
import { confirm } from '../confirm.ts'
import { inOptions } from '../fields.ts'
import { findBackup, findBranch } from '../find.ts'
import type { Column } from '../output/table.ts'
import { ageOf } from '../output/units.ts'
import { writeProject } from '../project.ts'
import { chosenDatabase, type Session } from '../session.ts'
import { waitFor, waitUntilDeleted } from '../wait.ts'

type Shown = Branch & { parent: string | undefined; isCurrent: boolean }

const columns: readonly Column<Shown>[] = [
  { title: '', value: ({ isCurrent }) => (isCurrent ? '*' : ' ') },
  { title: 'NAME', value: ({ name }) => name },
  { title: 'DISPLAY NAME', value: ({ display_name: name }) => name },
  { title: 'STATUS', value: ({ status }) => status },
  { title: 'COPY OF', value: ({ parent }) => parent },
  { title: 'CREATED', value: ({ created_at: time }) => ageOf(time) },
  { title: 'EXPIRES', value: ({ expires_at: time }) => time },
]

async function list(session: Session, name: string | undefined): Promise<void> {
  const { client, database, projectBranch } = await chosenDatabase(session, name)
  const branches = await client.branches(database.id)
  const nameOf = (id: string | null | undefined) =>
    id ? (branches.find(branch => branch.id === id)?.name ?? id) : database.name
  const { printer } = session
  const empty = `${escapeControls(database.name)} has no branches yet: ${program} branch create NAME`
  if (printer.format === 'json') return printer.list(branches, [], one => one.name, empty)
  printer.list(
    branches.map(branch => ({
      ...branch,
      parent: nameOf(branch.parent_branch_id),
      isCurrent: projectBranch !== undefined && [branch.name, branch.id, branch.display_name].includes(projectBranch),
    })),
    columns,
    one => one.name,
    empty,
  )
}

const fields = inOptions({
  display_name: '[name]',
  source_branch_id: '--from',
  backup_id: '--from-backup',
  target_time: '--at',
  expires_at: '--expires',
})

type CreateOptions = WaitOptions & {
  database?: string
  from?: string
  fromBackup?: string
  at?: string
  expires?: string
  checkout?: boolean
}

async function create(session: Session, displayName: string | undefined, options: CreateOptions): Promise<void> {
  const { client, database } = await chosenDatabase(session, options.database)
  const { from, fromBackup, at, expires } = options
  const first = await client.createBranch(
    database.id,
    {
      ...(displayName === undefined ? {} : { display_name: displayName }),
      ...(from === undefined ? {} : { source_branch_id: (await findBranch(client, database, from)).id }),
      ...(fromBackup === undefined ? {} : { backup_id: (await findBackup(client, fromBackup, database.id)).id }),
      ...(at === undefined ? {} : { target_time: at }),
      ...(expires === undefined ? {} : { expires_at: expires }),
    },
    0,
  )
  const read = (wait: number) => client.readBranch(database.id, first.id, 'application', wait)
  const branch = await waitFor(session, options, { client, first, read, databaseId: database.id })
  if (options.checkout) await use(session, database.name, branch.name)
  const shown = escapeControls(created(branch))
  session.printer.done(shown, branch.name, branch)
  if (session.printer.format === 'text') session.printer.note(nextStep(database.name, branch, options.checkout))
}

/** Returns a sentence with all names of a new branch. Pure. */
function created({ name, display_name: displayName, id, status }: Branch): string {
  return displayName ? `${displayName} is ${status}: name ${name}, id ${id}` : `${name} is ${status}: id ${id}`
}

/** Returns the next command for a new branch. `isChosen`: commands in this folder use the branch. Pure. */
function nextStep(databaseName: string, branch: Branch, isChosen = false): string {
  const [database, name] = [escapeControls(databaseName), escapeControls(branch.name)]
  if (branch.ip_allowlist?.rules.length === 0)
    return `No address may connect to the branch: its allowlist is empty, like the allowlist of its source. Add rules in the console: ${program} open ${database}`
  return `Connect: ${program} connect${isChosen ? '' : ` ${database} --branch ${name}`}`
}

/** Writes `.espalier`. */
async function use(session: Session, database: string, branch: string | undefined): Promise<void> {
  const path = await writeProject(session.io.directory, { database, branch })
  session.printer.note(`wrote ${path}: commands in this folder use ${escapeControls(branch ?? database)}`)
}

async function checkout(session: Session, name: string | undefined, options: { database?: string }): Promise<void> {
  const { client, database } = await chosenDatabase(session, options.database)
  const branch = name === undefined ? undefined : await findBranch(client, database, name)
  const path = await writeProject(session.io.directory, { database: database.name, branch: branch?.name })
  const used = escapeControls(branch?.name ?? database.name)
  session.printer.done(`wrote ${path}: commands in this folder use ${used}`, branch?.name ?? database.name, {
    database: database.name,
    branch: branch?.name,
  })
}

type DeleteOptions = WaitOptions & ConfirmOptions & { database?: string }

async function remove(session: Session, name: string, options: DeleteOptions): Promise<void> {
  const { client, database } = await chosenDatabase(session, options.database)
  const branch = await findBranch(client, database, name)
  const shown = escapeControls(branch.name)
  await confirm(session, options, branch.name, `This deletes the data of the branch ${shown}.`)
  await client.removeBranch(database.id, branch.id, 0)
  const read = async (wait: number) => {
    const present = await client.readBranch(database.id, branch.id, 'application', wait)
    return present
  }
  await waitUntilDeleted(session, options, { client, name: branch.name, read, databaseId: database.id })
  session.printer.done(`${shown} is ${options.wait ? 'deleted' : 'being deleted'}`, branch.name)
}

function addCreate(run: Run, group: ReturnType<typeof createCommand>): void {
  const command = databaseOption(group.command('create').description('creates a branch: a copy of a database'))
    .argument('[name]', "the branch's display name, at most 25 characters")
    .option('--from <branch>', 'copies this branch instead of the database')
    .option('--from-backup <backup>', 'copies the data of this durable backup')
    .option('--at <time>', 'copies the data of this time, such as 2026-01-31T12:00:00Z', time)
    .option('--expires <time>', 'the time at which Espalier deletes the branch, such as 2026-01-31T12:00:00Z', time)
    .option('--checkout', 'writes .espalier: commands in this folder use the branch')
  act<CreateOptions>(run, waitOptions(command), (session, [name], options) => create(session, name, options), fields)
}

const command: ClientCommand = run => {
  const group = createCommand(run, 'branch', 'Branches of a database: copies with their own address and passwords.')
  const listing = group.command('list').alias('ls').description('lists the branches of a database')
  act<{ database?: string }>(run, databaseOption(databaseArgument(listing)), (session, [name], options) =>
    list(session, name ?? options.database),
  )
  addCreate(run, group)
  const checkingOut = group
    .command('checkout')
    .description(
      'writes .espalier: commands in this folder use this branch; without an argument, they use the database',
    )
    .argument('[branch]', "the branch's name, display name or id")
  act<{ database?: string }>(run, databaseOption(checkingOut), (session, [name], options) =>
    checkout(session, name, options),
  )
  const deletion = databaseOption(group.command('delete').description('deletes a branch and its data'))
  act<DeleteOptions>(
    run,
    waitOptions(confirmOption(deletion.argument('<branch>', "the branch's name, display name or id"))),
    (session, [name = ''], options) => remove(session, name, options),
  )
  return group
}
export default command
