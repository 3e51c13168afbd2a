/**
 * Parses the first bytes of a Postgres client (Postgres manual, section "Message Flow", Start-up to SSL Session
 * Encryption), as far as a gateway that refuses a connection needs them. Pure: it reads the bytes received so far, and
 * returns their meaning or how many bytes it needs.
 */

/** The maximum that a server reads before authentication (Postgres: MAX_STARTUP_PACKET_LENGTH). */
export const longestStartup = 10_000

export type StartupRequest =
  /**
   * `need`: the number of bytes, counted from the first byte, that the parser needs; never more than `longestStartup`.
   */
  | { kind: 'incomplete'; need: number }
  /** The client begins TLS without a request (`sslnegotiation=direct`). Its bytes belong to TLS. */
  | { kind: 'direct-tls' }
  /** SSLRequest or GSSENCRequest: the client waits for one byte. */
  | { kind: 'tls-request' | 'gss-request'; length: 8 }
  /** CancelRequest: the client expects no answer. */
  | { kind: 'cancel' }
  /** A complete StartupMessage of protocol 3. */
  | { kind: 'startup'; length: number }
  | { kind: 'invalid'; reason: string }

const tlsHandshakeRecord = 0x16
const headerLength = 8
/** Request codes: a "protocol version" that no protocol has, 1234 and a number. */
const codes = { cancel: 80877102, tls: 80877103, gss: 80877104 }
const protocolMajor = 3

const invalid = (reason: string): StartupRequest => ({ kind: 'invalid', reason })

/** Parses a connection's first bytes. Bytes after `length` are not part of the request. */
export function readStartup(received: Buffer): StartupRequest {
  if (received.length === 0) return { kind: 'incomplete', need: 1 }
  if (received[0] === tlsHandshakeRecord) return { kind: 'direct-tls' }
  if (received[0] !== 0) return invalid('neither Postgres nor TLS')
  if (received.length < headerLength) return { kind: 'incomplete', need: headerLength }
  const length = received.readUInt32BE(0)
  if (length < headerLength || length > longestStartup) return invalid(`length ${length}`)
  const code = received.readUInt32BE(4)
  if (code === codes.cancel) return { kind: 'cancel' }
  if (code === codes.tls || code === codes.gss) {
    if (length !== headerLength) return invalid(`length ${length} of a request for encryption`)
    return { kind: code === codes.tls ? 'tls-request' : 'gss-request', length }
  }
  if (code >>> 16 !== protocolMajor) return invalid(`protocol ${code >>> 16}.${code & 0xffff}`)
  if (received.length < length) return { kind: 'incomplete', need: length }
  // The list of parameters ends with an empty name, so the last byte is always zero.
  return length > headerLength && received[length - 1] === 0
    ? { kind: 'startup', length }
    : invalid('parameters without an end')
}
