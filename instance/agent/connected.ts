/** Whether anybody is connected to an address of this network namespace, by the kernel's own table (proc(5), `/proc/net/tcp`). */
import { readFileSync } from 'node:fs'
import { isIPv4 } from 'node:net'
import { sampleEveryMs } from './contract.ts'

const established = '01'

const hex = (value: number, digits: number): string => value.toString(16).toUpperCase().padStart(digits, '0')

/** An IPv4 address as the table has it: its bytes the wrong way round. */
const reversed = (address: string): string =>
  address
    .split('.')
    .reverse()
    .map(byte => hex(Number(byte), 2))
    .join('')

const endOf = (host: string, port: number): string => `${isIPv4(host) ? reversed(host) : ''}:${hex(port, 4)}`

/** The ends of a table's connections that are this machine's: of IPv6, where a pod has one address, by their ports alone. */
export function connectedEnds(table: string): Set<string> {
  const ends = new Set<string>()
  for (const [, address = '', port, state] of table.matchAll(
    /^ *\d+: ([0-9A-F]+):([0-9A-F]{4}) [0-9A-F:]+ ([0-9A-F]{2}) /gm,
  ))
    if (state === established) ends.add(`${address.length === 8 ? address : ''}:${port}`)
  return ends
}

/** Whether a table has a connection to this port. */
export const hasConnection = (ends: ReadonlySet<string>, host: string, port: number): boolean =>
  ends.has(endOf(host, port))

/**
 * The kernel takes some milliseconds to write its table, and agents of one process share it. Read every five seconds it was two fifths
 * of what forty agents at rest took. It is read as often as each of them asks: whoever stays is seen at most once later.
 */
const tables = new Map<string, { at: number; ends: ReadonlySet<string> }>()

function endsIn(path: string): ReadonlySet<string> {
  const known = tables.get(path)
  const now = performance.now()
  if (known !== undefined && now - known.at < sampleEveryMs) return known.ends
  const ends = connectedEnds(readFileSync(path, 'latin1'))
  tables.set(path, { at: now, ends })
  return ends
}

/** As of some seconds ago. True where nobody can tell. */
export function isConnected(host: string, port: number): boolean {
  try {
    return hasConnection(endsIn(isIPv4(host) ? '/proc/net/tcp' : '/proc/net/tcp6'), host, port)
  } catch {
    return true
  }
}
