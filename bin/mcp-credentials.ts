/** Runs the token and user actions of `espalier mcp`. Each call runs one action, and accepts only its own options. */

import { nearest } from '../services/configuration/nearest.ts'
import {
  addToken,
  addUser,
  deleteUser,
  listTokens,
  listUsers,
  removeToken,
  setUserEnabled,
  updateUser,
} from '../services/mcp/credentials/administration.ts'
import { expiryRule, parseExpiry } from '../services/mcp/credentials/expiry.ts'
import { UsageError } from './command.ts'
import type { FlagKinds } from './dash-flags.ts'

const commonOptions = ['config', 'token-file', 'user-file']
/** The options of each action, without `commonOptions`. */
const actions: Readonly<Record<string, readonly string[]>> = {
  'add-token': ['token-note', 'token-expiry', 'token-database'],
  'list-tokens': [],
  'remove-token': [],
  'add-user': ['username', 'password', 'user-note', 'user-databases'],
  'update-user': ['username', 'password', 'user-note', 'user-databases'],
  'delete-user': ['username'],
  'list-users': [],
  'enable-user': ['username'],
  'disable-user': ['username'],
}

/** The flags of all actions, and the options that only actions use. */
export const credentialFlags: FlagKinds = {
  ...Object.fromEntries(Object.keys(actions).map(name => [name, name === 'remove-token' ? 'value' : 'switch'])),
  ...Object.fromEntries([...new Set(Object.values(actions).flat())].map(name => [name, 'value'])),
}

type Flags = ReadonlyMap<string, string | true>

/** Returns the requested action. Returns undefined if the flags request none. @throws UsageError */
export function credentialAction(flags: Flags): string | undefined {
  const requested = Object.keys(actions).filter(name => flags.has(name))
  const [action] = requested
  if (requested.length > 1)
    throw new UsageError(`${requested.map(name => `-${name}`).join(' and ')} cannot be combined`)
  const own = action === undefined ? undefined : [action, ...commonOptions, ...(actions[action] ?? [])]
  const stray = [...flags.keys()].find(name =>
    own === undefined ? Object.hasOwn(credentialFlags, name) : !own.includes(name),
  )
  if (stray === undefined) return action
  throw new UsageError(
    action === undefined
      ? `-${stray} requires an action, such as -add-user`
      : `-${stray} cannot be used with -${action}`,
  )
}

type ActionContext = {
  readonly flags: Flags
  readonly tokenFile: string
  readonly userFile: string
  /** Reads the names of the configured databases. @throws ConfigurationError */
  readonly databaseNames: () => readonly string[]
  /** @throws UsageError */
  readonly askPassword: () => Promise<string>
  /** Prints the action's output. */
  readonly print: (text: string) => void
  /** Prints messages for the user, separate from the output. */
  readonly report: (text: string) => void
  readonly now: number
}

const textOf = (flags: Flags, name: string): string | undefined => {
  const value = flags.get(name)
  return value === true ? undefined : value
}

function usernameOf(flags: Flags): string {
  const username = textOf(flags, 'username')
  if (username === undefined || username === '') throw new UsageError('-username is missing')
  return username
}

/** Returns null, which means all databases, for `*`. Returns undefined if the flag is absent. */
function databasesOf(flags: Flags): readonly string[] | null | undefined {
  const text = textOf(flags, 'user-databases')
  if (text === undefined) return undefined
  if (text === '*') return null
  return text
    .split(',')
    .map(name => name.trim())
    .filter(name => name !== '')
}

/** Refuses an unknown database: its token would never work, and no error would give the reason. @throws UsageError */
function checkDatabase(name: string, { databaseNames, report }: ActionContext): void {
  if (name === '') throw new UsageError('-token-database must not be empty')
  const known = databaseNames()
  if (known.length === 0) report(`No database is configured here, so the name ${JSON.stringify(name)} is not checked.`)
  if (known.length === 0 || known.includes(name)) return
  const meant = nearest(name, known)
  throw new UsageError(
    `-token-database must name a configured database${meant === undefined ? '' : `; did you mean ${meant}?`}`,
  )
}

async function makeToken(context: ActionContext): Promise<void> {
  const { flags, tokenFile, print, report, now } = context
  const lifetimeMs = parseExpiry(textOf(flags, 'token-expiry') ?? '1y')
  if (lifetimeMs === undefined) throw new UsageError(`-token-expiry ${expiryRule}`)
  const [note, database] = [textOf(flags, 'token-note'), textOf(flags, 'token-database')]
  if (database !== undefined) checkDatabase(database, context)
  const { id, token, expiresAt } = await addToken(
    tokenFile,
    { note, lifetimeMs: lifetimeMs ?? undefined, database },
    now,
  )
  print(token)
  report(
    `${id} ${expiresAt === null ? 'never expires' : `expires at ${expiresAt}`}. Save the token: it cannot be shown again.`,
  )
}

async function passwordOf({ flags, askPassword, report }: ActionContext): Promise<string> {
  const password = textOf(flags, 'password')
  if (password === undefined) return await askPassword()
  report(
    'Other users of this machine can see a password on the command line; without -password, the command prompts for it.',
  )
  return password
}

async function makeUser(context: ActionContext): Promise<void> {
  const { flags, userFile, report, now } = context
  const username = usernameOf(flags)
  const change = { note: textOf(flags, 'user-note'), databases: databasesOf(flags) }
  await addUser(userFile, username, { password: await passwordOf(context), ...change }, now)
  report(`${username} is added.`)
}

async function changeUser(context: ActionContext): Promise<void> {
  const { flags, userFile, report } = context
  const username = usernameOf(flags)
  const change = { note: textOf(flags, 'user-note'), databases: databasesOf(flags) }
  const isAboutOthers = change.note !== undefined || change.databases !== undefined
  const password = flags.has('password') || !isAboutOthers ? await passwordOf(context) : undefined
  await updateUser(userFile, username, { password, ...change })
  report(`${username} is updated. Sessions continue until they expire.`)
}

/** @throws UsageError; CredentialError, ConfigurationError */
export async function administer(action: string, context: ActionContext): Promise<void> {
  const { flags, tokenFile, userFile, print, report, now } = context
  switch (action) {
    case 'add-token':
      return await makeToken(context)
    case 'list-tokens':
      return print(await listTokens(tokenFile, now))
    case 'remove-token':
      return report(`${await removeToken(tokenFile, textOf(flags, 'remove-token') ?? '')} is removed.`)
    case 'add-user':
      return await makeUser(context)
    case 'update-user':
      return await changeUser(context)
    case 'list-users':
      return print(await listUsers(userFile))
    case 'delete-user': {
      const username = usernameOf(flags)
      await deleteUser(userFile, username)
      return report(`${username} is deleted. Sessions continue until they expire.`)
    }
    case 'enable-user':
    case 'disable-user': {
      const [username, isEnabled] = [usernameOf(flags), action === 'enable-user']
      await setUserEnabled(userFile, username, isEnabled)
      return report(`${username} is ${isEnabled ? 'enabled' : 'disabled'}.`)
    }
    default:
      throw new UsageError(`-${action} is not an action`)
  }
}
