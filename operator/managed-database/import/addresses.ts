/**
 * Checks the address of an import source. A tenant chooses the host, and a pod of the installation connects to it. So
 * the address must not be in the cluster, on a node or in a private network, unless the installation allows it. The
 * host name is resolved once for each attempt, and the pod gets the address.
 */
import { lookup } from 'node:dns/promises'
import { BlockList, isIP, isIPv4 } from 'node:net'
import type { ImportFault } from '../../../instance/import/contract.ts'

export class AddressError extends Error {
  override readonly name = 'AddressError'
  readonly fault: ImportFault
  constructor(fault: ImportFault, message: string) {
    super(message)
    this.fault = fault
  }
}

/** A selection from IANA's registries of special-purpose addresses, and multicast. */
const reserved = blockList([
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.0/24'],
  ...['192.168.0.0/16', '198.18.0.0/15', '224.0.0.0/4', '240.0.0.0/4'],
  ...[
    '::/96',
    '64:ff9b::/96',
    '64:ff9b:1::/48',
    '100::/64',
    '2001::/32',
    '2002::/16',
    'fc00::/7',
    'fe80::/10',
    'fec0::/10',
    'ff00::/8',
  ],
])

function blockList(blocks: readonly string[]): BlockList {
  const list = new BlockList()
  for (const block of blocks) {
    const [address = '', prefix = ''] = block.split('/')
    list.addSubnet(address, Number(prefix), isIPv4(address) ? 'ipv4' : 'ipv6')
  }
  return list
}

/** An IPv4-mapped IPv6 address is checked as IPv4. */
const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i

export function isAllowed(address: string, allowed: readonly string[]): boolean {
  const plain = mapped.exec(address)?.[1] ?? address
  const family = isIPv4(plain) ? 'ipv4' : 'ipv6'
  if (isIP(plain) === 0 || /^::ffff:/i.test(plain)) return false
  return blockList(allowed).check(plain, family) || !reserved.check(plain, family)
}

const refusal = (what: string) =>
  new AddressError(
    'SourceRefused',
    `${what} is not public; only public addresses and those in imports.from of the installation are allowed`,
  )

/** One error for unknown names and private addresses, so that a tenant cannot find names in the cluster's DNS. */
const refusedName = () => refusal('the host of the source does not exist, or one of its addresses')

/** Resolver error codes for a name without addresses. Any other code means that the query failed. */
const notFound = ['ENOTFOUND', 'ENODATA']

type Resolve = (host: string) => Promise<string[]>

const resolveByDns: Resolve = async host => (await lookup(host, { all: true })).map(({ address }) => address)

/** Returns the address to connect to. @throws AddressError */
export async function addressOf(
  host: string,
  allowed: readonly string[],
  resolve: Resolve = resolveByDns,
): Promise<string> {
  let addresses: string[]
  try {
    addresses = isIP(host) === 0 ? await resolve(host) : [host]
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown'
    if (notFound.includes(code)) throw refusedName()
    throw new AddressError('SourceUnreachable', `the host of the source cannot be resolved now (${code})`)
  }
  // All addresses are checked, not only the first one: another attempt may get them in another order.
  const [first] = addresses
  if (first !== undefined && addresses.every(address => isAllowed(address, allowed))) return first
  throw isIP(host) === 0 ? refusedName() : refusal('an address of the source')
}
