/**
 * The encoder of Distinguished Encoding Rules (ITU-T X.690). It writes certificates. There is no decoder: Node's
 * X509Certificate reads certificates, and refuses invalid ones.
 */

const tagged = (tag: number, content: Uint8Array): Buffer => {
  const length = content.length
  if (length < 0x80) return Buffer.concat([Buffer.of(tag, length), content])
  const bytes: number[] = []
  for (let rest = length; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256)
  return Buffer.concat([Buffer.of(tag, 0x80 | bytes.length, ...bytes), content])
}

export const sequence = (...items: Uint8Array[]): Buffer => tagged(0x30, Buffer.concat(items))
export const set = (...items: Uint8Array[]): Buffer => tagged(0x31, Buffer.concat(items))
export const boolean = (value: boolean): Buffer => tagged(0x01, Buffer.of(value ? 0xff : 0))
export const octetString = (bytes: Uint8Array): Buffer => tagged(0x04, bytes)
export const utf8String = (text: string): Buffer => tagged(0x0c, Buffer.from(text, 'utf8'))

/** A bit string of whole bytes. `unusedBits`: how many bits at the end of the last byte are unused. */
export const bitString = (bytes: Uint8Array, unusedBits = 0): Buffer =>
  tagged(0x03, Buffer.concat([Buffer.of(unusedBits), bytes]))

/** A non-negative integer from its big-endian bytes. */
export function integer(bytes: Uint8Array): Buffer {
  let start = 0
  while (start < bytes.length - 1 && bytes[start] === 0) start++
  const digits = bytes.subarray(start)
  const signed = (digits[0] ?? 0) >= 0x80 ? Buffer.concat([Buffer.of(0), digits]) : digits
  return tagged(0x02, signed.length === 0 ? Buffer.of(0) : signed)
}

/** An object identifier from its dotted text. */
export function objectIdentifier(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number)
  const bytes = [first * 40 + second]
  for (const arc of rest) {
    const groups = [arc % 128]
    for (let high = Math.floor(arc / 128); high > 0; high = Math.floor(high / 128)) groups.unshift((high % 128) | 0x80)
    bytes.push(...groups)
  }
  return tagged(0x06, Buffer.from(bytes))
}

/** A time to the second: UTCTime until 2049, GeneralizedTime afterwards (RFC 5280, 4.1.2.5). */
export function time(milliseconds: number): Buffer {
  const date = new Date(milliseconds)
  const digits = `${date.toISOString().slice(0, 19).replaceAll(/[-T:]/g, '')}Z`
  return date.getUTCFullYear() < 2050
    ? tagged(0x17, Buffer.from(digits.slice(2), 'ascii'))
    : tagged(0x18, Buffer.from(digits, 'ascii'))
}

/** `[number] EXPLICIT`: the content keeps its own tag inside. */
export const explicit = (number: number, content: Uint8Array): Buffer => tagged(0xa0 | number, content)
/** `[number] IMPLICIT` of a primitive type: the content's bytes with another tag. */
export const implicit = (number: number, content: Uint8Array): Buffer => tagged(0x80 | number, content)
