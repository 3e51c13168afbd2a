/** The command line: finds the subcommand, prints help, and turns errors into one line and an exit code. */
import { program } from '../server/program.ts'
import type { Command } from './command.ts'

/** The subcommands. Each module is loaded only when its subcommand runs, so that small commands start fast. */
const commands: Record<string, readonly [summary: string, load: () => Promise<{ default: Command }>]> = {
  run: ['start everything on this machine', () => import('./commands/run.ts')],
  rescue: ['restore databases after the loss of the store', () => import('./commands/rescue.ts')],
  pgvector: ['add pgvector to the Postgres of the embedded installation', () => import('./commands/pgvector.ts')],
  token: ['print an access token for the embedded installation', () => import('./commands/token.ts')],
  connect: ['connect to a database with psql', () => import('./commands/connect.ts')],
  move: ['move a database from another server, with seconds of downtime', () => import('./commands/move.ts')],
  demo: ['run the tour of docs/tour.md on a temporary installation', () => import('./commands/demo.ts')],
  api: ['serve the control-plane API of a Kubernetes cluster', () => import('./commands/api.ts')],
  operator: ['run the operator of a Kubernetes cluster', () => import('./commands/operator.ts')],
  bootstrap: ['prepare a Kubernetes cluster: resource definitions and keys', () => import('./commands/bootstrap.ts')],
  gateway: ['run a gateway replica of a Kubernetes cluster', () => import('./commands/gateway.ts')],
  rest: ['serve a database over HTTP, as PostgREST does', () => import('./commands/rest.ts')],
  mcp: ['serve databases to language models (MCP); manage tokens and users', () => import('./commands/mcp.ts')],
  'mcp-bridge': [
    'put HTTP, sessions and OAuth in front of an MCP tool server',
    () => import('./commands/mcp-bridge.ts'),
  ],
  rag: ['answer questions from documents in Postgres (retrieval server)', () => import('./commands/rag.ts')],
  archive: [
    'store base backups and WAL of databases in an S3 bucket or a directory',
    () => import('./commands/archive.ts'),
  ],
  csi: ['serve copy-on-write volumes on a node of a Kubernetes cluster', () => import('./commands/csi.ts')],
  instance: [
    'prepare, verify, import or monitor a Postgres instance (runs inside its pod)',
    () => import('./commands/instance.ts'),
  ],
}

async function usage(): Promise<string> {
  const { clientCommands } = await import('../cli/index.ts')
  const own = Object.entries(commands).map(([name, [summary]]) => [name, summary] as const)
  const client = Object.entries(clientCommands).map(([name, [summary]]) => [name, summary] as const)
  const listed = (lines: readonly (readonly [string, string])[]) =>
    lines.map(([name, summary]) => `  ${name.padEnd(10)} ${summary}`).join('\n')
  return `Managed Postgres with branches.

Usage: ${program} COMMAND [options]

Client of the API:
${listed([...client, ...own.filter(([name]) => name === 'connect')])}

Embedded installation, and servers:
${listed(own.filter(([name]) => name !== 'connect'))}

${program} COMMAND --help shows the options of each. ${program} --version prints the version.`
}

/** Replaces `espalier` with the name with which the user started the program. */
const withProgram = (help: string): string => help.replace(/(?<![\w./-])espalier (?=[a-z])/g, `${program} `)

/** @returns the exit code: 0 success, 1 failure, 2 wrong usage; client commands have more codes (cli/errors.ts) */
export async function main(argv: string[]): Promise<number> {
  const [name, ...args] = argv
  if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
    console.log(await usage())
    return name === undefined ? 2 : 0
  }
  if (name === '--version' || name === '-V' || name === 'version') {
    console.log((await import('../server/version.ts')).version)
    return 0
  }
  const [, load] = (Object.hasOwn(commands, name) ? commands[name] : undefined) ?? []
  if (load === undefined) {
    const { runClient } = await import('../cli/index.ts')
    return runClient(name, args, { others: Object.keys(commands) })
  }
  const command = (await load()).default
  // Arguments after `--` are for another program.
  const own = args.includes('--') ? args.slice(0, args.indexOf('--')) : args
  if (name !== 'instance' && (own.includes('--help') || own.includes('-h'))) {
    console.log(withProgram((await command.helpFor?.(own)) ?? command.help))
    return 0
  }
  try {
    return await command.run(args)
  } catch (error) {
    if (process.env.ESPALIER_DEBUG) console.error(error)
    const { escapeLines } = await import('../values/escape.ts')
    console.error(`espalier ${name}: ${escapeLines(error instanceof Error ? error.message : String(error))}`)
    const { exitCodeOf } = await import('../cli/errors.ts')
    return exitCodeOf(error)
  }
}
