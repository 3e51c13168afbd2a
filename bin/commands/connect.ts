/** `espalier connect`: psql on a database of yours, or a branch of it, found by its name through the API. */
import { createClient } from '../api-client.ts'
import { type Command, parseArguments, UsageError } from '../command.ts'
import { keepAuthority } from '../connect/authority-file.ts'
import { ConnectFailure, findConnection, type Role, roles } from '../connect/connection.ts'
import { connectionString, environmentOf, findPsql, runPsql, withoutPsql } from '../connect/psql.ts'
import { readTarget, targetHelp } from '../connect/target.ts'

const help = `Connects to a database with psql. Address, password and certificate authority come from the API; the server's
certificate is always verified.

Usage: espalier connect NAME [options] [-- PSQL OPTIONS]

  --branch NAME  a branch of it: its name, display name or id
  --role ROLE    app, admin or app_read_only (default: app)
  --print        print the connection string, with its password, in place of running psql
  --tenant ID    of the embedded installation: whose database it is (default: demo)

Whatever follows -- goes to psql: espalier connect shop -- -c 'SELECT 1'

Environment:
${targetHelp}
  XDG_CACHE_HOME     where the certificate of the authority is kept (default: ~/.cache)

psql is the one on PATH, else one that is installed beside it.`

function roleOf(text: string): Role {
  const role = roles.find(known => known === text)
  if (role === undefined) throw new UsageError(`--role must be one of ${roles.join(', ')}, not ${JSON.stringify(text)}`)
  return role
}

const command: Command = {
  summary: 'connect to a database with psql',
  help,
  async run(args) {
    const { values, positionals, rest } = parseArguments(args, {
      branch: { type: 'string' },
      role: { type: 'string', default: 'app' },
      print: { type: 'boolean', default: false },
      tenant: { type: 'string' },
    })
    const [name, ...more] = positionals
    if (name === undefined || more.length > 0) throw new UsageError('name one database: espalier connect NAME')
    if (values.print && rest.length > 0) throw new UsageError('--print runs no psql: leave out what follows --')
    const role = roleOf(values.role)
    const again = [name, ...(values.branch === undefined ? [] : ['--branch', values.branch]), '--role', role].join(' ')
    const client = createClient(await readTarget(process.env, values.tenant))
    const found = await findConnection(client, { name, branch: values.branch, role }, line =>
      console.error(`espalier connect: ${line}`),
    )
    const authorityFile = await keepAuthority(process.env, await client.authority())
    if (values.print) {
      console.log(connectionString(found, authorityFile))
      return 0
    }
    const psql = findPsql(process.env.PATH)
    if (psql === undefined) throw new ConnectFailure(withoutPsql(again, found, authorityFile))
    return runPsql(psql, rest, environmentOf(process.env, found, authorityFile, psql))
  },
}
export default command
