/** Gives a command's action its printer, its API client and the chosen database. */

import { program } from '../server/program.ts'
import { escapeControls } from '../values/escape.ts'
import type { Api } from './api/call.ts'
import type { Client } from './api/client.ts'
import type { Branch, Database } from './api/shapes.ts'
import { exitCodeOf, exitCodes, NotFound } from './errors.ts'
import { findBranch, findDatabase } from './find.ts'
import type { Io } from './io.ts'
import { createPrinter, type Printer } from './output/printer.ts'
import { chooseTarget, findProject } from './project.ts'

/** The options that every command has. */
export type CommonOptions = { json?: boolean; quiet?: boolean; profile?: string; tenant?: string; verbose?: boolean }

export type Session = {
  io: Io
  printer: Printer
  /** @throws UsageError if a variable, an option or a profile is invalid */
  api(): Promise<Api>
  client(): Promise<Client>
}

export function openSession(io: Io, options: CommonOptions): Session {
  const format = options.json ? 'json' : options.quiet ? 'quiet' : 'text'
  const api = async () => {
    const { readTarget } = await import('./target.ts')
    return readTarget(io.environment, options)
  }
  let opened: Promise<Client> | undefined
  const open = async () => {
    const { createClient } = await import('./api/client.ts')
    return createClient(await api())
  }
  return {
    io,
    printer: createPrinter(io, format),
    api,
    client: () => {
      opened ??= open()
      return opened
    },
  }
}

/** The chosen database. `projectBranch`: the branch name in the project file. The branch may no longer exist. */
type ChosenDatabase = { client: Client; database: Database; projectBranch: string | undefined }
/** The chosen database, and the chosen branch if any. */
type ChosenPlace = { client: Client; database: Database; branch: Branch | undefined }

/**
 * Adds the path of `.espalier` to the error if the database or branch in that file does not exist. The user may not
 * know of the file: in a cloned repository, another author wrote the file.
 */
async function ofProject<T>(path: string | undefined, find: () => Promise<T>): Promise<T> {
  try {
    return await find()
  } catch (error) {
    if (path === undefined || !(error instanceof Error) || exitCodeOf(error) !== exitCodes.notFound) throw error
    const change = `${program} branch checkout --database NAME`
    const hint = `the name is from ${escapeControls(path)}; to change the file: ${change}`
    throw new NotFound(`${error.message} (${hint})`)
  }
}

function noteUse({ printer }: Session, path: string | undefined, used: string): void {
  if (path !== undefined && printer.format === 'text') printer.note(escapeControls(`using ${used}, from ${path}`))
}

/** @throws UsageError, CommandFailure */
export async function chosenDatabase(session: Session, name?: string): Promise<ChosenDatabase> {
  const project = name === undefined ? await findProject(session.io.directory) : undefined
  const chosen = chooseTarget({ database: name }, project)
  const client = await session.client()
  const database = await ofProject(project?.path, () => findDatabase(client, chosen.database))
  noteUse(session, project?.path, database.name)
  return { client, database, projectBranch: project?.project.branch }
}

/** @throws UsageError, CommandFailure */
export async function chosenPlace(session: Session, name?: string, branchName?: string): Promise<ChosenPlace> {
  const project = name === undefined ? await findProject(session.io.directory) : undefined
  const chosen = chooseTarget({ database: name, branch: branchName }, project)
  const client = await session.client()
  const database = await ofProject(project?.path, () => findDatabase(client, chosen.database))
  const wanted = chosen.branch
  const find = async () => (wanted === undefined ? undefined : await findBranch(client, database, wanted))
  const branch = await ofProject(branchName === undefined ? project?.path : undefined, find)
  noteUse(session, project?.path, branch === undefined ? database.name : `${database.name} (${branch.name})`)
  return { client, database, branch }
}
