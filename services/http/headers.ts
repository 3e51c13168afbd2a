/** Header fields as HTTP sends them (RFC 9110, section 5). */

/** Names with their values, in the order in which they are written. */
export type HeaderList = readonly (readonly [name: string, value: string])[]

export const isHeaderName = (name: string): boolean => /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)

/** Whether HTTP allows every character of the value. A line break would start another header. */
export const isHeaderValue = (value: string): boolean => /^[\t\x20-\x7e\x80-\xff]*$/.test(value)

/**
 * Only the server sets framing and connection headers. If a handler set them, a proxy and the server could disagree
 * about the end of the message. Exception: a handler may set `Connection: close`.
 */
const framing = new Set(['content-length', 'transfer-encoding', 'trailer', 'te', 'upgrade', 'keep-alive'])

export function isFraming(name: string, value: string): boolean {
  const lower = name.toLowerCase()
  return framing.has(lower) || (lower === 'connection' && value !== 'close')
}
