/** The command line: finds the subcommand, prints help, turns errors into one line and an exit code. */
import { type Command, UsageError } from './command.ts'

/** Loaded only when asked for, so that a small command starts fast. */
const commands: Record<string, () => Promise<{ default: Command }>> = {
  run: () => import('./commands/run.ts'),
  rescue: () => import('./commands/rescue.ts'),
  pgvector: () => import('./commands/pgvector.ts'),
  token: () => import('./commands/token.ts'),
  connect: () => import('./commands/connect.ts'),
  demo: () => import('./commands/demo.ts'),
  api: () => import('./commands/api.ts'),
  operator: () => import('./commands/operator.ts'),
  bootstrap: () => import('./commands/bootstrap.ts'),
  gateway: () => import('./commands/gateway.ts'),
  rest: () => import('./commands/rest.ts'),
  mcp: () => import('./commands/mcp.ts'),
  'mcp-bridge': () => import('./commands/mcp-bridge.ts'),
  rag: () => import('./commands/rag.ts'),
  archive: () => import('./commands/archive.ts'),
  csi: () => import('./commands/csi.ts'),
  instance: () => import('./commands/instance.ts'),
}

async function usage(): Promise<string> {
  const lines = await Promise.all(
    Object.entries(commands).map(async ([name, load]) => `  ${name.padEnd(10)} ${(await load()).default.summary}`),
  )
  return `Managed Postgres with branches.\n\nUsage: espalier COMMAND [options]\n\n${lines.join('\n')}\n\nespalier COMMAND --help tells the options of each.`
}

/** @returns the exit code: 0 done, 1 failed, 2 wrong usage */
export async function main(argv: string[]): Promise<number> {
  const [name, ...args] = argv
  if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
    console.log(await usage())
    return name === undefined ? 2 : 0
  }
  const load = Object.hasOwn(commands, name) ? commands[name] : undefined
  if (load === undefined) {
    console.error(`espalier: unknown command ${JSON.stringify(name)}; espalier --help lists them`)
    return 2
  }
  const command = (await load()).default
  // What follows `--` is for another program.
  const own = args.includes('--') ? args.slice(0, args.indexOf('--')) : args
  if (name !== 'instance' && (own.includes('--help') || own.includes('-h'))) {
    console.log((await command.helpFor?.(own)) ?? command.help)
    return 0
  }
  try {
    return await command.run(args)
  } catch (error) {
    if (process.env.ESPALIER_DEBUG) console.error(error)
    console.error(`espalier ${name}: ${error instanceof Error ? error.message : String(error)}`)
    return error instanceof UsageError ? 2 : 1
  }
}
