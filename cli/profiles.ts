/**
 * Stores the profiles of `espalier login` (APIs and tokens) in one file. Only the owner can read the file. At most one
 * profile is current. If no profile is current, commands use the embedded installation.
 */
import { link, mkdir, open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { program } from '../server/program.ts'
import { CommandFailure, UsageError } from './errors.ts'
import { byName, matching, number, object, optional, type ShapeType, sized, string } from './shape.ts'

/** The profile name that means the embedded installation. No profile with this name is stored. */
export const localProfile = 'local'

const profileName = matching(/^[a-zA-Z0-9][\w.-]{0,62}$/)

/** Whether the value is an http or https URL. */
export const isWebAddress = (value: unknown): value is string =>
  string(value) && /^\s*https?:\/\//i.test(value) && URL.canParse(value)

const profile = object({
  api: isWebAddress,
  token: sized(1, 16_384),
  /** The CAs that verify the API's certificate, in PEM. */
  authority: optional(sized(0, 1_000_000)),
  /** The name in the API's certificate. */
  name: optional(sized(0, 300)),
  /** Present if an OpenID provider issued the token. */
  oidc: optional(
    object({
      issuer: string,
      clientId: string,
      /** Milliseconds since 1970. */
      expiresAt: optional(number),
      refreshToken: optional(string),
    }),
  ),
})
export type Profile = ShapeType<typeof profile>

const profilesFile = object({
  current: optional(profileName),
  profiles: byName(profileName, profile),
})
type Profiles = ShapeType<typeof profilesFile>

export const profilesPath = (environment: NodeJS.ProcessEnv): string =>
  join(environment.XDG_CONFIG_HOME || join(environment.HOME || homedir(), '.config'), 'espalier', 'profiles.json')

/** @throws UsageError */
export function checkProfileName(name: string): string {
  if (profileName(name) && name !== localProfile) return name
  throw new UsageError(
    name === localProfile
      ? `--profile: ${localProfile} is the embedded installation, which needs no login`
      : '--profile must be at most 63 letters, digits, dots, hyphens or underscores, and begin with a letter or digit',
  )
}

const errorCode = (error: unknown): string => (error instanceof Error && 'code' in error ? String(error.code) : '')

/** Reads the profiles. Returns no profiles if the file does not exist. @throws UsageError */
export async function readProfiles(environment: NodeJS.ProcessEnv): Promise<Profiles> {
  const path = profilesPath(environment)
  let text: string
  try {
    const file = await open(path, 'r')
    try {
      const { mode } = await file.stat()
      if ((mode & 0o077) !== 0)
        throw new UsageError(`${path} can be read or written by other users: run chmod 600 ${path}`)
      text = await readFile(file, 'utf8')
    } finally {
      await file.close()
    }
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return { profiles: {} }
    if (error instanceof UsageError) throw error
    throw new UsageError(`cannot read ${path} (${errorCode(error)})`)
  }
  const parsed = parseJson(text)
  if (!profilesFile(parsed))
    throw new UsageError(`${path} is not a valid profiles file: delete the file, and log in again`)
  return parsed
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Creates one directory at a time: for a path in /proc, Node's recursive mkdir does not return. */
async function makeDirectories(path: string): Promise<void> {
  for (const directory of [dirname(dirname(path)), dirname(path)])
    await mkdir(directory, { mode: 0o700 }).catch((error: unknown) => {
      if (errorCode(error) !== 'EEXIST') throw error
    })
}

/** A lock older than this is stale, because a process keeps its lock for at most two requests of 10 s each. */
const staleMs = 60_000
const mostWaitMs = 30_000
const pauseMs = 50

/** Deletes the lock if it is stale. */
async function breakStale(lock: string): Promise<void> {
  const found = await stat(lock).catch(() => undefined)
  if (found === undefined || Date.now() - found.mtimeMs < staleMs) return
  const taken = `${lock}.${crypto.randomUUID()}`
  if (!(await rename(lock, taken).then(...isDone))) return
  // If the inode differs, the rename moved a new lock of another process: put that lock back.
  if ((await stat(taken)).ino !== found.ino) await link(taken, lock).catch(() => {})
  await rm(taken, { force: true })
}
const isDone = [() => true, () => false] as const

async function acquire(path: string, mine: string): Promise<void> {
  const deadline = Date.now() + mostWaitMs
  for (;;) {
    try {
      await makeDirectories(path)
      return await writeFile(`${path}.lock`, mine, { flag: 'wx', mode: 0o600 })
    } catch (error) {
      if (errorCode(error) !== 'EEXIST')
        throw new UsageError(`cannot write ${path} (${errorCode(error)}): set XDG_CONFIG_HOME to a writable directory`)
    }
    if (Date.now() > deadline)
      throw new CommandFailure(`another command has the lock ${path}.lock: try again in a minute`)
    await breakStale(`${path}.lock`)
    await sleep(pauseMs)
  }
}

/**
 * Runs `work` under a lock, so that no other process writes the profiles at the same time.
 * @throws UsageError, CommandFailure
 */
export async function withProfiles<T>(
  environment: NodeJS.ProcessEnv,
  work: (present: Profiles, write: (next: Profiles) => Promise<void>) => Promise<T>,
): Promise<T> {
  const path = profilesPath(environment)
  const [lock, mine] = [`${path}.lock`, crypto.randomUUID()]
  const isLockedByUs = async () => (await readFile(lock, 'utf8').catch(() => '')) === mine
  await acquire(path, mine)
  try {
    return await work(await readProfiles(environment), async next => {
      if (!(await isLockedByUs()))
        throw new CommandFailure('another command took the lock of the profiles meanwhile: try again')
      await writeProfiles(environment, next)
    })
  } finally {
    if (await isLockedByUs()) await rm(lock, { force: true })
  }
}

/** Writes the profiles file. Only the holder of the lock may call this. @throws UsageError */
export async function writeProfiles(environment: NodeJS.ProcessEnv, profiles: Profiles): Promise<void> {
  const path = profilesPath(environment)
  const temporary = `${path}.${crypto.randomUUID()}`
  try {
    await makeDirectories(path)
    const file = await open(temporary, 'wx', 0o600)
    try {
      await file.writeFile(`${JSON.stringify(profiles, undefined, 2)}\n`)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => {})
    throw new UsageError(`cannot write ${path} (${errorCode(error)}): set XDG_CONFIG_HOME to a writable directory`)
  }
}

export type Named = { name: string; profile: Profile }

/** Returns the named profile, or the current one. @throws UsageError if the named profile does not exist */
export async function readProfile(
  environment: NodeJS.ProcessEnv,
  name: string | undefined,
): Promise<Named | undefined> {
  const { current, profiles } = await readProfiles(environment)
  const wanted = name ?? current
  if (wanted === undefined) return undefined
  const found = Object.hasOwn(profiles, wanted) ? profiles[wanted] : undefined
  if (found !== undefined) return { name: wanted, profile: found }
  if (name === undefined) return undefined
  const names = [localProfile, ...Object.keys(profiles)].join(', ')
  throw new UsageError(
    `there is no profile ${JSON.stringify(name)}; known profiles: ${names}; run ${program} login to create a profile`,
  )
}
