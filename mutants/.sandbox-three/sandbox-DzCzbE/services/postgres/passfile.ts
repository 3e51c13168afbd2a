/** A password file as libpq reads it (Postgres manual section 32.16): lines of host:port:database:user:password, the first that fits. */
// @ts-nocheck

import { readFileSync, statSync } from 'node:fs'
import type { Address, Host } from './address.ts'

type Wanted = Pick<Host, 'name' | 'port'> & Pick<Address, 'database' | 'user'>

/** The password in the text of such a file; `*` fits everything, a backslash takes the meaning of what follows it. */
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
 * The password that a file has for this host; undefined where there is no such file.
 * @throws Error where others may read it, as libpq would not take it either
 */
export function readPasswordFile(path: string, wanted: Wanted): string | undefined {
  const found = statSync(path, { throwIfNoEntry: false })
  if (found === undefined || !found.isFile()) return undefined
  if ((found.mode & 0o077) !== 0) throw new Error('the password file may be read by others: its mode must be 600')
  return passwordIn(readFileSync(path, 'utf8'), wanted)
}
