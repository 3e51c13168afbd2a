/** Reads names from the API for completion, within a time limit, and caches them for 5 s. */
import { createHash } from 'node:crypto'
import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { createClient } from '../api/client.ts'
import { findDatabase } from '../find.ts'
import type { Io } from '../io.ts'
import { localProfile, readProfiles } from '../profiles.ts'
import { chooseTarget, findProject } from '../project.ts'
import { list, sized } from '../shape.ts'
import { readTarget } from '../target.ts'
import type { Names } from './candidates.ts'

/** The maximum age of cached names. */
const freshMs = 5_000

const cached = list(sized(0, 300))
const mostCached = 10_000

/** Whether a shell reads the name as one word without special characters. Completion omits other names. */
const isPlain = (name: string): boolean => /^[A-Za-z0-9][\w.:@-]{0,200}$/.test(name)

type NamesQuery = {
  of: Names
  database: string | undefined
  profile: string | undefined
  tenant: string | undefined
  timeoutMs: number
}

export async function namesFor(io: Io, { of, database, profile, tenant, timeoutMs }: NamesQuery): Promise<string[]> {
  if (of === 'profile') return [localProfile, ...Object.keys((await readProfiles(io.environment)).profiles)]
  const api = { ...(await readTarget(io.environment, { profile, tenant, renews: false })), timeoutMs }
  const chosen = of === 'branch' ? chooseTarget({ database }, await findProject(io.directory)).database : ''
  const key = createHash('sha256')
    .update(JSON.stringify([api.url.href, profile, tenant, io.environment.ESPALIER_TOKEN, of, chosen]))
    .digest('hex')
  return await throughCache(io, key.slice(0, 32), async () => {
    const client = createClient(api)
    if (of === 'database') return (await client.list()).map(({ name }) => name)
    if (of === 'backup') return (await client.backups()).map(({ name }) => name)
    if (of === 'size') return (await client.sizes()).filter(({ status }) => status === 'active').map(({ name }) => name)
    const branches = await client.branches((await findDatabase(client, chosen)).id)
    return branches.flatMap(({ name, display_name: shown }) => (shown ? [name, shown] : [name]))
  })
}

async function throughCache({ environment }: Io, key: string, read: () => Promise<string[]>): Promise<string[]> {
  const root = environment.XDG_CACHE_HOME || join(environment.HOME || homedir(), '.cache')
  const directory = join(root, 'espalier', 'completion')
  const path = join(directory, key)
  try {
    const isFresh = Date.now() - (await stat(path)).mtimeMs < freshMs
    const found: unknown = isFresh ? JSON.parse(await readFile(path, 'utf8')) : undefined
    if (cached(found) && found.length <= mostCached) return found
  } catch {
    // The names are not cached, or the cache cannot be read: read them from the API.
  }
  const names = [...new Set((await read()).filter(isPlain))]
  const temporary = `${path}.${crypto.randomUUID()}`
  try {
    // For a path in /proc, mkdir does not return. The time limit of completion then ends the process.
    await mkdir(root, { recursive: true })
    await mkdir(directory, { recursive: true, mode: 0o700 })
    await writeFile(temporary, JSON.stringify(names), { mode: 0o600, flag: 'wx' })
    await rename(temporary, path)
  } catch {
    // Without a cache, each completion calls the API.
    await rm(temporary, { force: true }).catch(() => {})
  }
  return names
}
