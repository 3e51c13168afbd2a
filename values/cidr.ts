/**
 * IPv4 addresses and CIDR blocks as numbers. The API stores rules masked, the operator masks rules that users applied
 * by hand, and the gateway matches them. An address alone is a /32, a block is masked to its network address, and IPv6
 * is rejected.
 */
const octet = '(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])'

/** IPv4 address or CIDR block, as a pattern: octets without leading zeros, prefix 0 to 32. */
export const ipv4CidrPattern = new RegExp(`^(${octet}\\.){3}${octet}(/(3[0-2]|[12]?[0-9]))?$`)

/** Addresses whose first `prefix` bits are those of `network`; both as unsigned 32-bit numbers. */
type CidrBlock = { network: number; prefix: number }

const bitsOf = (prefix: number): number => (prefix === 0 ? 0 : (0xffffffff << (32 - prefix)) >>> 0)

/** The number of a dotted IPv4 address. Undefined if the text is not an address. */
export function parseAddress(text: string): number | undefined {
  return text.includes('/') ? undefined : parseCidr(text)?.network
}

/** The masked block that an address or CIDR block names. Undefined if the text is neither. */
export function parseCidr(text: string): CidrBlock | undefined {
  if (!ipv4CidrPattern.test(text)) return undefined
  const [address = '', prefixText = '32'] = text.split('/')
  const prefix = Number(prefixText)
  const number = address.split('.').reduce((sum, octet) => sum * 256 + Number(octet), 0)
  return { network: (number & bitsOf(prefix)) >>> 0, prefix }
}

/** `a.b.c.d/p`, always with its prefix. */
export function renderCidr({ network, prefix }: CidrBlock): string {
  return `${[24, 16, 8, 0].map(shift => (network >>> shift) & 255).join('.')}/${prefix}`
}

/**
 * The stored form of a rule's text: `203.0.113.7` becomes `203.0.113.7/32`, and `203.0.113.7/24` becomes
 * `203.0.113.0/24`.
 */
export function maskCidr(text: string): string | undefined {
  const block = parseCidr(text)
  return block && renderCidr(block)
}

export const contains = (block: CidrBlock, address: number): boolean =>
  (address & bitsOf(block.prefix)) >>> 0 === block.network

type AllowlistState = 'closed' | 'open' | 'restricted'

/**
 * The state of an allowlist: `closed` without rules, `open` if one rule accepts every address, otherwise `restricted`.
 */
export function allowlistState(cidrs: readonly string[]): AllowlistState {
  if (cidrs.length === 0) return 'closed'
  const blocks = cidrs.map(parseCidr).filter(block => block !== undefined)
  return blocks.some(block => block.prefix === 0) ? 'open' : 'restricted'
}
