/**
 * Stores the CA certificates of an installation in a file, because libpq reads them only from files. The file name
 * contains a hash of the content. Files of several installations can coexist, and old connection strings stay valid.
 */
import { createHash } from 'node:crypto'
import { mkdir, rename, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { UsageError } from '../errors.ts'

const directoryOf = (environment: NodeJS.ProcessEnv): string =>
  join(environment.XDG_CACHE_HOME || join(homedir(), '.cache'), 'espalier')

const errorCode = (error: unknown): string | undefined =>
  error instanceof Error && 'code' in error ? String(error.code) : undefined

async function makeDirectory(path: string): Promise<void> {
  await mkdir(path, { mode: 0o700 }).catch((error: unknown) => {
    if (errorCode(error) !== 'EEXIST') throw error
  })
}

/** @returns the path. @throws UsageError if it cannot be written */
export async function keepAuthority(environment: NodeJS.ProcessEnv, certificates: string): Promise<string> {
  const directory = directoryOf(environment)
  const digest = createHash('sha256').update(certificates).digest('hex').slice(0, 16)
  const path = join(directory, `ca-${digest}.pem`)
  const temporary = `${path}.${crypto.randomUUID()}`
  try {
    // Create one directory at a time: for a path in /proc, Node's recursive mkdir does not return.
    for (const part of [dirname(directory), directory]) await makeDirectory(part)
    await writeFile(temporary, certificates, { flag: 'wx', mode: 0o600 })
    await rename(temporary, path)
  } catch (error) {
    const code = errorCode(error) ?? String(error)
    throw new UsageError(`cannot write ${path} (${code}): set XDG_CACHE_HOME to a writable directory`)
  }
  return path
}
