/** Whether anybody is connected to an address of this network namespace, by the kernel's own table (proc(5), `/proc/net/tcp`). */
import { readFileSync } from 'node:fs'
import { isIPv4 } from 'node:net'

const established = '01'

const hex = (value: number, digits: number): string => value.toString(16).toUpperCase().padStart(digits, '0')

/** An IPv4 address as the table has it: its bytes the wrong way round. */
const reversed = (address: string): string =>
  address
    .split('.')
    .reverse()
    .map(byte => hex(Number(byte), 2))
    .join('')

/** Whether a table has a connection to this port; of an IPv6 address, to that port of any: a pod has one. */
export function hasConnection(table: string, host: string, port: number): boolean {
  const local = `${isIPv4(host) ? reversed(host) : '[0-9A-F]*'}:${hex(port, 4)}`
  return new RegExp(`^ *\\d+: ${local} [0-9A-F:]+ ${established} `, 'm').test(table)
}

/**
 * The kernel takes some milliseconds to write its table, and agents of one process share it. Read every five seconds it was two fifths
 * of what forty agents at rest took. This is as often as each of them asks: whoever stays is seen at most once later.
 */
const freshMs = 30_000
const tables = new Map<string, { at: number; text: string }>()

function tableIn(path: string): string {
  const known = tables.get(path)
  const now = performance.now()
  if (known !== undefined && now - known.at < freshMs) return known.text
  const text = readFileSync(path, 'latin1')
  tables.set(path, { at: now, text })
  return text
}

/** As of some seconds ago. True where nobody can tell. */
export function isConnected(host: string, port: number): boolean {
  try {
    return hasConnection(tableIn(isIPv4(host) ? '/proc/net/tcp' : '/proc/net/tcp6'), host, port)
  } catch {
    return true
  }
}
