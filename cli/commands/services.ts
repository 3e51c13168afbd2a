/** `espalier services`: lists and changes the services of a database (mcp, rest, rag). */
import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { Argument } from 'commander'
import { parse } from 'yaml'
import { program } from '../../server/program.ts'
import { escapeControls } from '../../values/escape.ts'
import type { Service } from '../api/shapes.ts'
import {
  act,
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
import { NotFound, UsageError } from '../errors.ts'
import { inOptions, type Rewrite } from '../fields.ts'
import type { Io } from '../io.ts'
import type { Column } from '../output/table.ts'
import { chosenDatabase, type Session } from '../session.ts'
import { waitFor } from '../wait.ts'

const types = ['mcp', 'rest', 'rag']
const typeArgument = () => new Argument('<type>', 'the service').choices(types)
const largestConfiguration = 1_000_000

const columns: readonly Column<Service>[] = [
  { title: 'SERVICE', value: ({ service_type: type }) => type },
  { title: 'STATE', value: ({ state }) => state },
  { title: 'ALLOWLIST', value: ({ ip_allowlist: list }) => list?.rules.map(({ cidr }) => cidr).join(', ') || 'closed' },
  { title: 'ADDRESS', value: ({ uri }) => uri },
]

/** Reads a configuration in YAML or JSON from a file or from standard input. @throws UsageError */
async function readConfiguration({ input }: Io, path: string | undefined): Promise<object> {
  if (path === undefined) return {}
  const content =
    path === '-'
      ? await text(input)
      : await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
          throw new UsageError(`--config: cannot read ${path} (${error.code})`)
        })
  if (content.length > largestConfiguration)
    throw new UsageError(`--config: the file must have at most ${largestConfiguration} characters`)
  let value: unknown
  try {
    value = parse(content)
  } catch {
    throw new UsageError('--config: the file is neither YAML nor JSON')
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  throw new UsageError('--config: the file must have the fields of the configuration, such as db_schemas')
}

/** Replaces request paths, such as `services[0].rest_config.db_schemas`, with the command's options. */
const fields: Rewrite = message =>
  inOptions({ ip_allowlist: '--allow' })(
    message
      .replace(/\bservices\[\d+\]\.(?=ip_allowlist\b)/g, '')
      .replace(/\bservices\[\d+\]\.service_type\b/g, '<type>')
      .replace(/\bservices\[\d+\]\.(?:mcp|rest|rag)_config\b(\.)?/g, (_, dot) => (dot ? '--config: ' : '--config')),
  )

type AddOptions = WaitOptions & { config?: string; allowMe?: boolean; allow?: string[] }

/** Computes the new list of services, and sends it. The API keeps optional fields that a service in the list omits. */
async function change(
  session: Session,
  name: string | undefined,
  options: WaitOptions,
  decide: (present: readonly Service[]) => object[],
): Promise<Service[]> {
  const { client, database } = await chosenDatabase(session, name)
  const first = await client.changeFrom(database.id, ({ services = [] }) => ({ services: decide(services) }), 0)
  const read = (wait: number) => client.read(database.id, 'application', wait)
  return (await waitFor(session, options, { client, first, read })).services ?? []
}

/** Repeats the configuration of an unchanged service: the API requires `rest_config` and `rag_config`. */
const unchanged = ({ service_type, rest_config, rag_config, mcp_config }: Service): object => ({
  service_type,
  ...(rest_config === undefined ? {} : { rest_config }),
  ...(rag_config === undefined ? {} : { rag_config }),
  ...(mcp_config === undefined ? {} : { mcp_config }),
})

async function add(session: Session, type: string, name: string | undefined, options: AddOptions): Promise<void> {
  const { allow = [], allowMe } = options
  const configuration = await readConfiguration(session.io, options.config)
  const own = allowMe ? [await (await session.client()).clientIp()] : []
  const rules = [...allow, ...own].map(cidr => ({ cidr }))
  const added = {
    service_type: type,
    ...(rules.length === 0 ? {} : { ip_allowlist: { rules } }),
    ...(options.config === undefined ? {} : { [`${type}_config`]: configuration }),
  }
  const services = await change(session, name, options, present => [
    ...present.filter(service => service.service_type !== type).map(unchanged),
    added,
  ])
  show(session, services, type)
}

function show({ printer }: Session, services: readonly Service[], type: string): void {
  const service = services.find(({ service_type: one }) => one === type)
  if (service === undefined) throw new NotFound(`the database has no ${type} service: ${program} services add ${type}`)
  printer.one(service, type, [
    ['service', service.service_type],
    ['state', service.state],
    ['address', service.uri],
    ['allowlist', service.ip_allowlist?.rules.map(({ cidr }) => cidr).join(', ') || 'closed'],
    ['token', service.mcp_config?.init_tokens],
    ['message', service.message],
  ])
}

function addChanges(run: Run, group: ReturnType<typeof createCommand>): void {
  const adding = group
    .command('add')
    .description('adds a service, or changes its configuration')
    .addArgument(typeArgument())
    .option('--config <file>', 'a file with the configuration in YAML or JSON ("-": standard input)')
    .option('--allow-me', 'adds a rule for the address of this machine')
    .option('--allow <cidr...>', 'adds a rule for each of these IPv4 addresses or blocks')
    .addHelpText(
      'after',
      `
The services rest and rag need a configuration.
This example adds the service rest, with a role that can read the tables:
  ${program} sql shop --role admin -c 'CREATE ROLE web'
  ${program} sql shop -c 'GRANT SELECT ON ALL TABLES IN SCHEMA public TO web'
  printf 'db_schemas: public\\ndb_anon_role: web\\n' | ${program} services add rest shop --allow-me --config - --wait`,
    )
  act<AddOptions>(
    run,
    waitOptions(databaseArgument(adding)),
    (session, [type = '', name], options) => add(session, type, name, options),
    fields,
  )
  const removing = group.command('remove').description('removes a service').addArgument(typeArgument())
  act<WaitOptions & ConfirmOptions>(
    run,
    waitOptions(confirmOption(databaseArgument(removing))),
    async (session, [type = '', name], options) => {
      const { database } = await chosenDatabase(session, name)
      const shown = escapeControls(database.name)
      const lost = `This removes the service ${type} of ${shown}, with the service's tokens and address.`
      await confirm(session, options, database.name, lost)
      await change(session, name, options, present => {
        const remaining = present.filter(({ service_type: one }) => one !== type)
        if (remaining.length < present.length) return remaining.map(unchanged)
        throw new NotFound(`the database has no ${type} service`)
      })
      session.printer.done(`${type} of ${shown} is ${options.wait ? 'removed' : 'being removed'}`, type)
    },
  )
}

const command: ClientCommand = run => {
  const group = createCommand(run, 'services', 'Services of a database: mcp, rest and rag.')
  const listing = group.command('list').alias('ls').description('lists the services of a database')
  act(run, databaseArgument(listing), async (session, [name]) => {
    const { database } = await chosenDatabase(session, name)
    const empty = `${escapeControls(database.name)} has no services: run ${program} services add --help`
    session.printer.list(database.services ?? [], columns, ({ service_type: type }) => type, empty)
  })
  const getting = group
    .command('get')
    .description('shows a service, with its address and token')
    .addArgument(typeArgument())
  act(run, databaseArgument(getting), async (session, [type = '', name]) => {
    const { client, database } = await chosenDatabase(session, name)
    show(session, (await client.read(database.id)).services ?? [], type)
  })
  addChanges(run, group)
  return group
}
export default command
