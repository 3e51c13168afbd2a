/**
 * Password files like libpq's (Postgres manual, section 32.16). A line is host:port:database:user:password, and the
 * first matching line is used.
 */
import { readFileSync, statSync } from 'node:fs'
import type { Address, Host } from './address.ts'

type Wanted = Pick<Host, 'name' | 'port'> & Pick<Address, 'database' | 'user'>

/** Finds the password in the text of such a file. `*` matches everything. A backslash escapes the next character. */
export function passwordIn(text: string, { name, port, database, user }: Wanted): string | undefined {
  const host = name.startsWith('/') ? ['localhost', name] : [name]
  const wanted = [host, [String(port)], [database], [user]]
  for (const line of text.split(/\r?\n/)) {
    if (line.startsWith('#')) continue
    const fields = (line.match(/(?:^|:)(?:\\.|[^:\\])*/g) ?? []).map((field, index) => field.slice(index === 0 ? 0 : 1))
    const fits = wanted.every((options, index) => fields[index] === '*' || options.includes(plain(fields[index] ?? '')))
    if (fits && fields[4]) return plain(fields[4])
  }
  return undefined
}

const plain = (field: string): string => field.replace(/\\(.)/g, '$1')

/**
 * The password for this host in a file. Undefined if the file does not exist.
 * @throws Error if other users may read the file; libpq ignores such a file, too
 */
export function readPasswordFile(path: string, wanted: Wanted): string | undefined {
  const found = statSync(path, { throwIfNoEntry: false })
  if (found === undefined || !found.isFile()) return undefined
  if ((found.mode & 0o077) !== 0) throw new Error('other users may read the password file: its mode must be 600')
  return passwordIn(readFileSync(path, 'utf8'), wanted)
}
