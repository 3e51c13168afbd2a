/**
 * Whose request it is, as an IP address. X-Forwarded-For is a claim that anybody can make: it is believed as far as trusted proxies have
 * written it, read from its end, where the nearest of them has.
 */
import { isIP } from 'node:net'
import { contains, parseAddress, parseCidr } from '../../values/cidr.ts'

export type Block = NonNullable<ReturnType<typeof parseCidr>>

/** @throws RangeError where one of them is neither an IPv4 address nor a block */
export const trustedBlocks = (texts: readonly string[]): readonly Block[] =>
  texts.map(text => {
    const block = parseCidr(text)
    if (block === undefined) throw new RangeError(`${JSON.stringify(text)} is no IPv4 address or CIDR block`)
    return block
  })

/** An IPv4 address as a socket for both kinds says it. */
const plain = (address: string): string => (address.startsWith('::ffff:') ? address.slice(7) : address)

function isTrusted(address: string, trusted: readonly Block[]): boolean {
  const number = parseAddress(address)
  return number !== undefined && trusted.some(block => contains(block, number))
}

/** `peer`: the other end of the connection. What is no address in the header ends what is believed of it. */
export function clientAddress(
  peer: string | undefined,
  forwardedFor: string | undefined,
  trusted: readonly Block[],
): string {
  let address = plain(peer ?? '')
  if (trusted.length === 0 || forwardedFor === undefined) return address
  const hops = forwardedFor.split(',').map(hop => plain(hop.trim()))
  while (isTrusted(address, trusted)) {
    const before = hops.pop()
    if (before === undefined || isIP(before) === 0) break
    address = before
  }
  return address
}

/** What stands for an address where attempts are counted: whoever has one address of IPv6 has the 2^64 around it. */
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
