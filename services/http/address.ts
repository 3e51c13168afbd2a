/**
 * The client IP address of a request. Any client can send X-Forwarded-For. So this module reads the header from right
 * to left, and returns the first address that is not a trusted proxy.
 */
import { BlockList, isIP } from 'node:net'

const kindOf = (address: string) => (isIP(address) === 6 ? 'ipv6' : 'ipv4')

/** Adds an IPv4 or IPv6 address or CIDR block. Returns false if the text is neither. */
function addBlock(list: BlockList, text: string): boolean {
  const [address = '', prefix, ...others] = text.split('/')
  const kind = isIP(address)
  const longest = kind === 6 ? 128 : 32
  if (kind === 0 || others.length > 0 || address.includes('%')) return false
  if (prefix !== undefined && (!/^\d{1,3}$/.test(prefix) || Number(prefix) > longest)) return false
  list.addSubnet(address, Number(prefix ?? longest), kindOf(address))
  return true
}

/** Whether a text is an IPv4 or IPv6 address or CIDR block. */
export const isBlock = (text: string): boolean => addBlock(new BlockList(), text)

/** @throws RangeError if an entry is neither an address nor a block */
export function trustedBlocks(texts: readonly string[]): BlockList {
  const list = new BlockList()
  for (const text of texts)
    if (!addBlock(list, text)) throw new RangeError(`${JSON.stringify(text)} is not an IP address or CIDR block`)
  return list
}

/** Converts `::ffff:1.2.3.4` to `1.2.3.4`. A dual-stack socket reports IPv4 clients in this form. */
const plain = (address: string): string => (/^::ffff:[\d.]+$/i.test(address) ? address.slice(7) : address)

function isTrusted(address: string, trusted: BlockList): boolean {
  const [bare = ''] = address.split('%')
  return isIP(bare) !== 0 && trusted.check(bare, kindOf(bare))
}

/**
 * Returns `peer` if it is not a trusted proxy. Otherwise reads X-Forwarded-For from right to left, and returns the
 * first address that is not a trusted proxy. At an invalid entry, returns the last valid address.
 * `peer`: the address of the connection's other end.
 */
export function clientAddress(peer: string | undefined, forwardedFor: string | undefined, trusted: BlockList): string {
  let address = plain(peer ?? '')
  if (forwardedFor === undefined) return address
  const hops = forwardedFor.split(',').map(hop => plain(hop.trim()))
  while (isTrusted(address, trusted)) {
    const before = hops.pop()
    if (before === undefined || isIP(before) === 0) break
    address = before
  }
  return address
}

/**
 * The key that identifies a client for limits. Groups IPv6 addresses by /64, because a client usually controls
 * a full /64.
 */
export function networkOf(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)
  if (mapped?.[1] !== undefined) return mapped[1]
  if (!address.includes(':')) return address
  const [head = '', tail] = address.toLowerCase().replace(/%.*$/, '').split('::')
  const groups = head === '' ? [] : head.split(':')
  const after = tail === undefined || tail === '' ? 0 : tail.split(':').length
  const filled =
    tail === undefined ? groups : [...groups, ...Array<string>(Math.max(0, 8 - groups.length - after)).fill('0')]
  const rest = tail === undefined || tail === '' ? [] : tail.split(':')
  return `${[...filled, ...rest]
    .slice(0, 4)
    .map(group => group.replace(/^0+(?=.)/, ''))
    .join(':')}::/64`
}
