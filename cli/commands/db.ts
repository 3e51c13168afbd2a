/** `espalier db`: lists, creates, shows and deletes the databases of the account, and connects to them. */
import { Option } from 'commander'
import { program } from '../../server/program.ts'
import { escapeControls } from '../../values/escape.ts'
import type { Client } from '../api/client.ts'
import type { Database } from '../api/shapes.ts'
import {
  act,
  branchOption,
  type ClientCommand,
  type ConfirmOptions,
  confirmOption,
  createCommand,
  databaseArgument,
  type Run,
  type WaitOptions,
  waitOptions,
} from '../arguments.ts'
import { confirm } from '../confirm.ts'
import { type Role, roles } from '../connect/connection.ts'
import { CommandFailure, UsageError } from '../errors.ts'
import { inOptions } from '../fields.ts'
import { findBackup, findDatabase } from '../find.ts'
import type { Column } from '../output/table.ts'
import { ageOf, bytesText } from '../output/units.ts'
import { chosenDatabase, chosenPlace, type Session } from '../session.ts'
import { waitFor, waitUntilDeleted } from '../wait.ts'

const columns: readonly Column<Database>[] = [
  { title: 'NAME', value: ({ name }) => name },
  { title: 'STATUS', value: ({ status }) => status },
  { title: 'SIZE', value: ({ size }) => size },
  { title: 'STORAGE', value: ({ storage_used: used }) => bytesText(used), align: 'right' },
  { title: 'BRANCHES', value: ({ branch_count: count }) => count ?? 0, align: 'right' },
  { title: 'POSTGRES', value: ({ pg_version: version }) => version },
  { title: 'REGION', value: ({ region }) => region },
  { title: 'CREATED', value: ({ created_at: time }) => ageOf(time) },
]

export function databasePairs(database: Database) {
  const { connection } = database
  return [
    ['name', database.name],
    ['status', database.status],
    ['id', database.id],
    ['size', database.size],
    ['region', database.region],
    ['postgres', database.pg_version],
    ['display name', database.display_name],
    ['storage used', bytesText(database.storage_used)],
    ['branches', database.branch_count],
    ['protected', database.deletion_protection ? 'yes' : undefined],
    [
      'allowlist',
      database.ip_allowlist.rules.map(({ cidr }) => cidr).join(', ') ||
        `closed: run ${program} allow me to add this machine`,
    ],
    ['services', database.services?.map(({ service_type: type, state }) => `${type} ${state}`).join(', ')],
    ['host', connection?.host],
    ['port', connection?.port],
    ['created', database.created_at],
  ] as const
}

/** Returns the only region. If there are several, the error lists them. */
async function onlyRegion(client: Client): Promise<string> {
  const regions = (await client.regions()).map(({ region }) => region)
  const [first] = regions
  if (first !== undefined && regions.length === 1) return first
  if (first === undefined) throw new CommandFailure('the installation has no region yet')
  throw new UsageError(`--region is required, and must be one of ${escapeControls(regions.join(', '))}`)
}

async function smallestSize(client: Client): Promise<string> {
  const usable = (await client.sizes()).filter(({ status }) => status === 'active')
  const [first] = usable.toSorted((left, right) => left.connections - right.connections)
  if (first === undefined)
    throw new CommandFailure(`the installation has no active size: run ${program} size list to see all sizes`)
  return first.name
}

const fields = inOptions({
  name: '<name>',
  region: '--region',
  size: '--size',
  pg_version: '--pg-version',
  display_name: '--display-name',
  ip_allowlist: '--allow',
  backup: '--durable',
  source_backup_id: '--from-backup',
})

type CreateOptions = WaitOptions & {
  size?: string
  region?: string
  pgVersion?: string
  displayName?: string
  allowMe?: boolean
  allow?: string[]
  durable?: boolean
  fromBackup?: string
}

async function inputOf(client: Client, name: string | undefined, options: CreateOptions): Promise<object> {
  const { region, size, pgVersion, displayName, allow = [], allowMe, durable, fromBackup } = options
  const rules = [
    ...allow.map(cidr => ({ cidr })),
    ...(allowMe ? [{ cidr: await client.clientIp(), label: 'espalier allow me' }] : []),
  ]
  return {
    name,
    region: region ?? (await onlyRegion(client)),
    size: size ?? (await smallestSize(client)),
    ...(pgVersion === undefined ? {} : { pg_version: pgVersion }),
    ...(displayName === undefined ? {} : { display_name: displayName }),
    ...(rules.length === 0 ? {} : { ip_allowlist: { rules } }),
    ...(durable ? { backup: { durable } } : {}),
    ...(fromBackup === undefined ? {} : { source_backup_id: (await findBackup(client, fromBackup)).id }),
  }
}

async function create(session: Session, name: string | undefined, options: CreateOptions): Promise<void> {
  const client = await session.client()
  const first = await client.create(await inputOf(client, name, options), 0)
  const read = (wait: number) => client.read(first.id, 'application', wait)
  const database = await waitFor(session, options, { client, first, read })
  const shown = escapeControls(database.name)
  session.printer.done(`${shown} is ${escapeControls(database.status)}`, database.name, database)
  if (session.printer.format === 'text')
    session.printer.note(
      database.ip_allowlist.rules.length === 0
        ? `No address may connect yet: ${program} allow me ${shown}`
        : `Connect: ${program} connect ${shown}`,
    )
}

type DeleteOptions = WaitOptions & ConfirmOptions & { force?: boolean; keepBackups?: boolean; purge?: boolean }

async function remove(session: Session, name: string, options: DeleteOptions): Promise<void> {
  const client = await session.client()
  const database = await findDatabase(client, name)
  const count = database.branch_count ?? 0
  if (count > 0 && !options.force) {
    const [has, them] = count === 1 ? ['a branch', 'it'] : [`${count} branches`, 'them']
    throw new CommandFailure(`${escapeControls(database.name)} has ${has}: delete ${them} first, or add --force`)
  }
  const branches = count === 0 ? '' : ` and ${count} ${count === 1 ? 'branch' : 'branches'}`
  const backups = options.keepBackups ? '' : ' Its backups are deleted too.'
  const shown = escapeControls(database.name)
  await confirm(session, options, database.name, `This deletes the data of ${shown}${branches}.${backups}`)
  const { force, keepBackups: keep_backups, purge } = options
  await client.remove(database.id, { force, keep_backups, purge }, 0)
  const read = (wait: number) => client.read(database.id, 'application', wait)
  await waitUntilDeleted(session, options, { client, name: database.name, read })
  session.printer.done(`${shown} is ${options.wait ? 'deleted' : 'being deleted'}`, database.name)
}

function addList(run: Run, group: ReturnType<typeof createCommand>): void {
  act(run, group.command('list').alias('ls').description('lists the databases of the account'), async session => {
    const databases = await (await session.client()).list()
    session.printer.list(databases, columns, ({ name }) => name, `No databases yet: ${program} db create NAME`)
  })
  act(run, databaseArgument(group.command('get').description('shows one database')), async (session, [name]) => {
    const { client, database } = await chosenDatabase(session, name)
    const read = await client.read(database.id)
    session.printer.one(read, read.name, databasePairs(read))
  })
}

function addCreate(run: Run, group: ReturnType<typeof createCommand>): void {
  const command = group
    .command('create')
    .description('creates a database')
    .argument('<name>', 'at most 50 lower-case letters and digits; begins with a letter')
    .option('--size <size>', `a size from ${program} size list (default: the smallest)`)
    .option('--region <region>', 'the region (default: the only region)')
    .option('--pg-version <major>', 'the version of Postgres (default: the newest)')
    .option('--display-name <text>', 'a display name, shown in the console')
    .option('--allow-me', 'adds a rule for the address of this machine')
    .option('--allow <cidr...>', 'adds a rule for each of these IPv4 addresses or blocks')
    .option('--durable', 'keeps WAL and base backups in the archive')
    .option('--from-backup <backup>', 'copies the data of this backup: its name or id')
  act<CreateOptions>(run, waitOptions(command), (session, [name], options) => create(session, name, options), fields)
}

type ConnectOptions = { branch?: string; role: Role; print?: boolean }

function addConnect(run: Run, group: ReturnType<typeof createCommand>): void {
  const command = branchOption(
    databaseArgument(group.command('connect').description(`runs psql, like ${program} connect`)),
  )
    .addOption(new Option('--role <role>', 'the role').choices(roles).default('app'))
    .option('--print', 'prints the connection string, with its password')
  act<ConnectOptions>(run, command, async (session, [name], { branch, role, print = false }) => {
    const { client, database, branch: found } = await chosenPlace(session, name, branch)
    const { connect } = await import('../connect/index.ts')
    const wanted = { name: database.name, branch: found?.id, role, print, rest: run.rest }
    const { line: printLine, note } = session.printer
    run.exitCode = await connect(client, session.io.environment, wanted, { note, print: printLine })
  })
}

const command: ClientCommand = run => {
  const group = createCommand(run, 'db', 'Databases of the account.')
  addList(run, group)
  addCreate(run, group)
  addConnect(run, group)
  const deletion = group
    .command('delete')
    .description('deletes a database and its data')
    .argument('<database>', "the database's name or id")
    .option('--force', 'deletes the branches too')
    .option('--keep-backups', 'keeps the backups')
    .option('--purge', 'deletes the data at once, also from the archive')
  act<DeleteOptions>(
    run,
    waitOptions(confirmOption(deletion)),
    (session, [name = ''], options) => remove(session, name, options),
    inOptions({ force: '--force', keep_backups: '--keep-backups', purge: '--purge' }),
  )
  return group
}
export default command
