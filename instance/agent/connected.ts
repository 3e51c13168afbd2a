/**
 * Whether a client is connected to an address of this network namespace. The kernel's table has the answer (proc(5),
 * `/proc/net/tcp`).
 */
import { readFileSync } from 'node:fs'
import { isIPv4 } from 'node:net'
import { sampleEveryMs } from './contract.ts'

const established = '01'

const hex = (value: number, digits: number): string => value.toString(16).toUpperCase().padStart(digits, '0')

/** An IPv4 address in the table's format: its bytes in reverse order. */
const reversed = (address: string): string =>
  address
    .split('.')
    .reverse()
    .map(byte => hex(Number(byte), 2))
    .join('')

const endOf = (host: string, port: number): string => `${isIPv4(host) ? reversed(host) : ''}:${hex(port, 4)}`

/** The local ends of a table's connections. For IPv6, where a pod has one address, only their ports. */
export function connectedEnds(table: string): Set<string> {
  const ends = new Set<string>()
  for (const [, address = '', port, state] of table.matchAll(
    /^ *\d+: ([0-9A-F]+):([0-9A-F]{4}) [0-9A-F:]+ ([0-9A-F]{2}) /gm,
  ))
    if (state === established) ends.add(`${address.length === 8 ? address : ''}:${port}`)
  return ends
}

/** Whether a table contains a connection to this port. */
export const hasConnection = (ends: ReadonlySet<string>, host: string, port: number): boolean =>
  ends.has(endOf(host, port))

/**
 * The kernel takes some milliseconds to create its table, so all agents of one process share it. Reading it every five
 * seconds was two fifths of the cost of forty idle agents. So it is read as often as one agent samples. A lasting
 * connection is seen at most one sample later.
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

/** Whether a client was connected a few seconds ago. True if unknown. */
export function isConnected(host: string, port: number): boolean {
  try {
    return hasConnection(endsIn(isIPv4(host) ? '/proc/net/tcp' : '/proc/net/tcp6'), host, port)
  } catch {
    return true
  }
}
