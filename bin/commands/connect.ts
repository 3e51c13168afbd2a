/** `espalier connect`: runs psql on a database or branch, found by its name through the API. */
import { createClient } from '../../cli/api/client.ts'
import { type Role, roles } from '../../cli/connect/connection.ts'
import { connect } from '../../cli/connect/index.ts'
import { chooseTarget, findProject } from '../../cli/project.ts'
import { readTarget, targetHelp } from '../../cli/target.ts'
import { program } from '../../server/program.ts'
import { escapeLines } from '../../values/escape.ts'
import { type Command, parseArguments, UsageError } from '../command.ts'

const help = `Connects to a database with psql. Address, password and certificate authority come from the API; the server's
certificate is always verified.

Usage: espalier connect [NAME] [options] [-- PSQL OPTIONS]

Without NAME, it uses the database and branch of .espalier (espalier branch checkout).

  --branch NAME  the branch: its name, display name or id
  --role ROLE    app, admin or app_read_only (default: app)
  --print        prints the connection string, with its password, instead of running psql
  --profile NAME a profile from \`espalier login\`; \`local\` means the embedded installation
  --tenant ID    the tenant of the embedded installation (default: demo)

Arguments after -- are passed to psql: espalier connect shop -- -c 'SELECT 1'

Environment:
${targetHelp}
  XDG_CACHE_HOME     where the CA certificate is cached (default: ~/.cache)

Runs the psql on PATH, or else another installed psql. espalier sql needs no psql.`

function roleOf(text: string): Role {
  const role = roles.find(known => known === text)
  if (role === undefined) throw new UsageError(`--role must be one of ${roles.join(', ')}, not ${JSON.stringify(text)}`)
  return role
}

const command: Command = {
  help,
  async run(args) {
    const { values, positionals, rest } = parseArguments(args, {
      branch: { type: 'string' },
      role: { type: 'string', default: 'app' },
      print: { type: 'boolean', default: false },
      profile: { type: 'string' },
      tenant: { type: 'string' },
    })
    const [name, ...more] = positionals
    const project = name === undefined ? await findProject(process.cwd()) : undefined
    if (more.length > 0)
      throw new UsageError('only one NAME is allowed: use --branch for a branch, and -- before options of psql')
    if (name === undefined && project === undefined) throw new UsageError(`NAME is missing: ${program} connect NAME`)
    if (values.print && rest.length > 0)
      throw new UsageError('--print does not run psql: remove the arguments after --')
    const role = roleOf(values.role)
    const { database, branch } = chooseTarget({ database: name, branch: values.branch }, project)
    if (project !== undefined)
      console.error(
        escapeLines(`espalier connect: using ${database}${branch ? ` (${branch})` : ''}, from ${project.path}`),
      )
    const client = createClient(await readTarget(process.env, values))
    return connect(
      client,
      process.env,
      { name: database, branch, role, print: values.print, rest },
      { note: line => console.error(escapeLines(`espalier connect: ${line}`)), print: line => console.log(line) },
    )
  },
}
export default command
