/**
 * Parses the header of PROXY protocol version 2 (HAProxy's proxy-protocol.txt, section 2.2). HAProxy sends this header,
 * with the client's address, for each connection that it passes to the agent. The parser does not rely on a valid
 * header, although only HAProxy sends to the agent's socket. Pure.
 */
/**
 * The maximum length of an accepted header. HAProxy's header with addresses and a unique id has fewer than 200 bytes.
 */
export const longestHeader = 16 + 1024

export type ProxyHeader =
  /** `need`: the number of bytes, counted from the first byte, that the parser needs. */
  | { kind: 'incomplete'; need: number }
  | { kind: 'header'; length: number; source: string; uniqueId: string | undefined }
  /** HAProxy itself opened the connection, for a health check. */
  | { kind: 'local'; length: number }
  | { kind: 'invalid'; reason: string }

const signature = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')
const fixedLength = 16
const uniqueIdType = 0x05

const invalid = (reason: string): ProxyHeader => ({ kind: 'invalid', reason })

export function readProxyHeader(received: Buffer): ProxyHeader {
  const compared = Math.min(received.length, signature.length)
  if (!received.subarray(0, compared).equals(signature.subarray(0, compared))) return invalid('not PROXY protocol 2')
  if (received.length < fixedLength) return { kind: 'incomplete', need: fixedLength }
  const command = received.readUInt8(12)
  if (command !== 0x20 && command !== 0x21) return invalid(`version and command ${command}`)
  const length = fixedLength + received.readUInt16BE(14)
  if (length > longestHeader) return invalid(`length ${length}`)
  if (received.length < length) return { kind: 'incomplete', need: length }
  if (command === 0x20) return { kind: 'local', length }
  const body = received.subarray(fixedLength, length)
  switch (received.readUInt8(13)) {
    case 0x11:
      return body.length < 12
        ? invalid('too short for IPv4')
        : withTlvs(length, [...body.subarray(0, 4)].join('.'), body.subarray(12))
    case 0x21:
      return body.length < 36
        ? invalid('too short for IPv6')
        : withTlvs(length, ipv6Text(body.subarray(0, 16)), body.subarray(36))
    default:
      return invalid(`address family ${received.readUInt8(13)}`)
  }
}

function withTlvs(length: number, source: string, tlvs: Buffer): ProxyHeader {
  let uniqueId: string | undefined
  for (let at = 0; at < tlvs.length; ) {
    if (tlvs.length - at < 3) return invalid('an incomplete field')
    const end = at + 3 + tlvs.readUInt16BE(at + 1)
    if (end > tlvs.length) return invalid('a field longer than the header')
    if (tlvs.readUInt8(at) === uniqueIdType) uniqueId = tlvs.toString('latin1', at + 3, end)
    at = end
  }
  return { kind: 'header', length, source, uniqueId }
}

/** The IPv6 address in full form. Messages contain it. No rule admits it, because rules are IPv4 only. */
const ipv6Text = (bytes: Buffer): string =>
  Array.from({ length: 8 }, (_, index) => bytes.readUInt16BE(index * 2).toString(16)).join(':')
