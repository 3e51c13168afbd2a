/** Runs psql on a database or branch, or prints its connection string. */
import type { Client } from '../api/client.ts'
import { CommandFailure } from '../errors.ts'
import { keepAuthority } from './authority-file.ts'
import { findConnection, type Role } from './connection.ts'
import { connectionString, environmentOf, findPsql, runPsql, withoutPsql } from './psql.ts'

type Wanted = {
  name: string
  branch?: string | undefined
  role: Role
  print: boolean
  /** Options of psql. */
  rest: readonly string[]
}

/** @returns the exit code of psql; 0 with `print`. @throws CommandFailure */
export async function connect(
  client: Client,
  environment: NodeJS.ProcessEnv,
  { name, branch, role, print, rest }: Wanted,
  output: { note(line: string): void; print(line: string): void },
): Promise<number> {
  const found = await findConnection(client, { name, branch, role }, output.note)
  const authorityFile = await keepAuthority(environment, await client.authority())
  if (print) {
    output.print(connectionString(found, authorityFile))
    return 0
  }
  const psql = findPsql(environment.PATH)
  if (psql === undefined) {
    const again = [name, ...(branch === undefined ? [] : ['--branch', branch]), '--role', role].join(' ')
    throw new CommandFailure(withoutPsql(again, found, authorityFile))
  }
  return runPsql(psql, rest, environmentOf(environment, found, authorityFile, psql))
}
