/** A byte-level Postgres client: its first message, and a parser for refusals. */

const version = (major: number, minor: number) => major * 65536 + minor

export function packet(code: number, body: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(8)
  head.writeUInt32BE(8 + body.length, 0)
  head.writeUInt32BE(code, 4)
  return Buffer.concat([head, body])
}

export const tlsRequest = packet(80877103)
export const gssRequest = packet(80877104)
export const cancelRequest = packet(80877102, Buffer.alloc(8))
export const startupMessage = (minor = 0) => packet(version(3, minor), Buffer.from('user\0app\0database\0app\0\0'))

/** The fields of an ErrorResponse by their one-letter types. Undefined if the bytes are not an ErrorResponse. */
export function errorFields(bytes: Buffer): Record<string, string> | undefined {
  if (bytes[0] !== 0x45 || bytes.length < 5 || bytes.readUInt32BE(1) !== bytes.length - 1) return undefined
  const fields = bytes.subarray(5).toString('utf8').split('\0')
  return Object.fromEntries(fields.filter(field => field !== '').map(field => [field.slice(0, 1), field.slice(1)]))
}
