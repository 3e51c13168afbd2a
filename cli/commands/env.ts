/** `espalier env`: prints environment variables for libpq and most drivers, for a shell or an .env file. */
import { Option } from 'commander'
import { program } from '../../server/program.ts'
import { printedJson } from '../../values/escape.ts'
import { act, branchOption, type ClientCommand, createCommand, databaseArgument } from '../arguments.ts'
import { keepAuthority } from '../connect/authority-file.ts'
import { findConnection, type Role, roles } from '../connect/connection.ts'
import { connectionString } from '../connect/psql.ts'
import { chosenPlace } from '../session.ts'
import { envLine } from './env-lines.ts'

type Options = { branch?: string; role: Role; export: boolean; unquoted?: boolean }

const command: ClientCommand = run => {
  const parsed = branchOption(databaseArgument(createCommand(run, 'env', 'Prints DATABASE_URL and the PG* variables.')))
    .addOption(new Option('--role <role>', 'the role').choices(roles).default('app'))
    .option('--no-export', 'prints NAME=VALUE, for an .env file: dotenv, python-dotenv, Docker Compose, source')
    .option('--unquoted', 'prints NAME=VALUE without quotes, for docker run --env-file and kubectl --from-env-file')
    .addHelpText('after', `\nThe output contains the password. Example: eval "$(${program} env shop)"`)
  return act<Options>(run, parsed, async (session, [name], options) => {
    const { client, database, branch } = await chosenPlace(session, name, options.branch)
    const { printer, io } = session
    const wanted = { name: database.id, branch: branch?.id, role: options.role }
    const found = await findConnection(client, wanted, printer.note)
    const authorityFile = await keepAuthority(io.environment, await client.authority())
    const { host, port, username, password, database: databaseName } = found.connection
    const variables = {
      DATABASE_URL: connectionString(found, authorityFile),
      PGHOST: host,
      PGPORT: String(port),
      PGUSER: username,
      PGPASSWORD: password,
      PGDATABASE: databaseName,
      PGSSLMODE: 'verify-full',
      PGSSLROOTCERT: authorityFile,
    }
    if (printer.format === 'json') return printer.line(printedJson(variables, 2))
    const quoting = options.unquoted ? 'none' : options.export ? 'shell' : 'file'
    // Checks all lines before it prints the first line.
    const lines = Object.entries(variables).map(([variable, value]) => envLine(variable, value, quoting))
    for (const line of lines) printer.line(line)
  })
}
export default command
