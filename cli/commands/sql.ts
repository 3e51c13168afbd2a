/** `espalier sql`: runs statements without psql, and prints their rows as a table, CSV or JSON. */
import { Option } from 'commander'
import { program } from '../../server/program.ts'
import { act, branchOption, type ClientCommand, createCommand, databaseArgument } from '../arguments.ts'
import { findConnection, type Role, roles } from '../connect/connection.ts'
import { UsageError } from '../errors.ts'
import { isTerminal } from '../io.ts'
import { chosenPlace, type Session } from '../session.ts'
import { createRowPrinter, type RowFormat } from '../sql/print.ts'
import { runStatements } from '../sql/run.ts'

type Options = { branch?: string; role: Role; command?: string[]; csv?: boolean; json?: boolean; quiet?: boolean }

/** The limit for standard input, because the command keeps all of it in memory. */
const mostCharacters = 16 * 1024 * 1024

async function statementsOf({ io }: Session, { command }: Options): Promise<string> {
  if (command !== undefined) return command.join(';\n')
  if (isTerminal(io.input))
    throw new UsageError(`no statement: use ${program} sql -c 'SELECT 1', or pass statements on standard input`)
  // Removes a byte order mark, which some editors write.
  const decoder = new TextDecoder()
  let piped = ''
  for await (const chunk of io.input) {
    piped += typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true })
    if (piped.length > mostCharacters)
      throw new UsageError(
        `the statements must have at most ${mostCharacters} characters: for longer files, use psql -f`,
      )
  }
  return piped + decoder.decode()
}

const formatOf = ({ csv, json, quiet }: Options): RowFormat =>
  json ? 'json' : csv ? 'csv' : quiet ? 'values' : 'table'

const command: ClientCommand = run => {
  const parsed = branchOption(databaseArgument(createCommand(run, 'sql', 'Runs SQL statements; needs no psql.')))
    .addOption(new Option('--role <role>', 'the role').choices(roles).default('app'))
    .option('-c, --command <sql>', 'a statement; can be repeated', (sql: string, all: string[] = []) => [...all, sql])
    .option('--csv', 'prints rows as CSV')
    .addHelpText('after', '\nWithout -c it reads statements from standard input. --quiet prints values only.')
  return act<Options>(run, parsed, async (session, [name], options) => {
    const statements = await statementsOf(session, options)
    const { client, database, branch } = await chosenPlace(session, name, options.branch)
    const wanted = { name: database.id, branch: branch?.id, role: options.role }
    const found = await findConnection(client, wanted, session.printer.note)
    const printer = createRowPrinter(session.io, formatOf(options))
    await runStatements(found, await client.authority(), statements, printer)
  })
}
export default command
