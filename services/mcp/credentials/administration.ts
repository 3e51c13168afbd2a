/**
 * Creates, lists, changes and deletes tokens and users. Each operation is one atomic change of one file, or an error
 * with the reason. A new token is shown once, to its creator. Lists contain no secrets.
 */
import { randomBytes } from 'node:crypto'
import { hashPassword, isAcceptable, passwordRule } from '../../authentication/password.ts'
import { type Entries, type Form, parseEntries } from './document.ts'
import { CredentialError } from './errors.ts'
import { isExpired, type TokenEntry, tokenForm, type UserEntry, userForm } from './files.ts'
import { digestOf, newApiToken } from './secrets.ts'
import { withoutExpired } from './tokens.ts'
import { changeEntries, readText } from './write.ts'

type NewToken = {
  readonly note: string | undefined
  /** undefined: the token never expires. */
  readonly lifetimeMs: number | undefined
  readonly database: string | undefined
}

/** The minimum length of a hash prefix that identifies a token. */
const leastPrefix = 8

const timeOf = (ms: number): string => new Date(ms).toISOString()

/** Removes fields whose value is undefined. */
const withoutUndefined = <Fields extends object>(fields: Fields): Fields =>
  // Only optional fields can be undefined, so the result has the same type.
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Fields

/** Returns the token, which cannot be shown again, and its entry's name. @throws CredentialError */
export async function addToken(
  path: string,
  { note, lifetimeMs, database }: NewToken,
  now: number,
): Promise<{ readonly id: string; readonly token: string; readonly expiresAt: string | null }> {
  const token = newApiToken()
  const id = `token-${Math.floor(now / 1_000)}-${randomBytes(3).toString('hex')}`
  const expiresAt = lifetimeMs === undefined ? null : timeOf(now + lifetimeMs)
  const entry: TokenEntry = withoutUndefined({
    hash: digestOf(token),
    expires_at: expiresAt,
    annotation: note,
    created_at: timeOf(now),
    database,
  })
  await changeEntries(tokenForm, path, before => new Map(withoutExpired(before, now)).set(id, entry))
  return { id, token, expiresAt }
}

/**
 * Removes the token with this name or hash prefix, and returns its name. @throws CredentialError if no token or several
 * tokens match
 */
export async function removeToken(path: string, wanted: string): Promise<string> {
  let removed = ''
  await changeEntries(tokenForm, path, before => {
    const found = [...before].filter(
      ([id, { hash }]) => id === wanted || (wanted.length >= leastPrefix && hash.startsWith(wanted.toLowerCase())),
    )
    const [[id] = ['']] = found
    if (found.length !== 1) {
      const many = found.length > 1 ? `${found.length} tokens` : 'no token'
      throw new CredentialError(
        `${path} has ${many} with this id, or with a hash that begins so (${leastPrefix} digits or more)`,
      )
    }
    removed = id
    return new Map([...before].filter(([one]) => one !== id))
  })
  return removed
}

async function readEntries<Entry>(form: Form<Entry>, path: string): Promise<Entries<Entry>> {
  const text = await readText(path)
  try {
    return text === undefined ? new Map() : parseEntries(form, text)
  } catch (error) {
    throw error instanceof CredentialError ? new CredentialError(`${path} ${error.message}`) : error
  }
}

/** Formats lines as columns with headings. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [head, ...rows]
  const widths = head.map((_, column) => Math.max(...all.map(row => (row[column] ?? '').length)))
  return all
    .map(row =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

/** Notes and names are arbitrary text. The function escapes control characters, which a terminal would interpret. */
const printable = (text: string): string => text.replaceAll(/[\p{Cc}\p{Cf}]/gu, '?')

/** @throws CredentialError */
export async function listTokens(path: string, now: number): Promise<string> {
  const entries = await readEntries(tokenForm, path)
  if (entries.size === 0) return 'no tokens'
  const rows = Array.from(entries, ([id, entry]) => [
    id,
    entry.hash.slice(0, 12),
    isExpired(entry, now) ? 'expired' : (entry.expires_at ?? 'never'),
    printable(entry.database ?? '(all)'),
    printable(entry.annotation ?? ''),
  ])
  return table(['id', 'hash', 'expires', 'database', 'note'], rows)
}

/** @throws CredentialError */
export async function listUsers(path: string): Promise<string> {
  const entries = await readEntries(userForm, path)
  if (entries.size === 0) return 'no users'
  const rows = Array.from(entries, ([name, entry]) => [
    name,
    entry.enabled ? 'enabled' : 'disabled',
    String(entry.failed_attempts),
    printable(entry.available_databases?.join(',') ?? '(all)'),
    printable(entry.annotation ?? ''),
  ])
  return table(['user', 'state', 'failed', 'databases', 'note'], rows)
}

type UserChange = {
  readonly password?: string | undefined
  readonly note?: string | undefined
  /** null: all databases. */
  readonly databases?: readonly string[] | null | undefined
}

async function hashOf(password: string): Promise<string> {
  if (!isAcceptable(password)) throw new CredentialError(`the password ${passwordRule}`)
  return hashPassword(password)
}

const changed = (user: UserEntry, { note, databases }: UserChange): UserEntry =>
  withoutUndefined({
    ...user,
    annotation: note ?? user.annotation,
    available_databases: databases === null ? undefined : (databases?.slice() ?? user.available_databases),
  })

/** @throws CredentialError if the name exists */
export async function addUser(
  path: string,
  name: string,
  { password, ...change }: UserChange & { readonly password: string },
  now: number,
): Promise<void> {
  if (!userForm.name.test(name)) throw new CredentialError(`the user name ${userForm.nameRule}`)
  const user = { password_hash: await hashOf(password), enabled: true, failed_attempts: 0, created_at: timeOf(now) }
  await changeEntries(userForm, path, before => {
    if (before.has(name)) throw new CredentialError(`${path} has a user ${name} already`)
    return new Map(before).set(name, changed(user, change))
  })
}

async function changeUser(path: string, name: string, change: (user: UserEntry) => UserEntry): Promise<void> {
  await changeEntries(userForm, path, before => {
    const user = before.get(name)
    if (user === undefined) throw new CredentialError(`${path} has no user ${printable(name)}`)
    return new Map(before).set(name, change(user))
  })
}

/** Existing sessions of the user continue. @throws CredentialError if the name does not exist */
export async function updateUser(path: string, name: string, { password, ...change }: UserChange): Promise<void> {
  const password_hash = password === undefined ? undefined : await hashOf(password)
  await changeUser(path, name, user => changed({ ...user, password_hash: password_hash ?? user.password_hash }, change))
}

/** Enabling a user also resets the failed logins. @throws CredentialError if the name does not exist */
export const setUserEnabled = (path: string, name: string, enabled: boolean): Promise<void> =>
  changeUser(path, name, user => ({ ...user, enabled, failed_attempts: enabled ? 0 : user.failed_attempts }))

/** @throws CredentialError if the name does not exist */
export async function deleteUser(path: string, name: string): Promise<void> {
  await changeEntries(userForm, path, before => {
    if (!before.has(name)) throw new CredentialError(`${path} has no user ${printable(name)}`)
    return new Map([...before].filter(([one]) => one !== name))
  })
}
