/** Header fields as HTTP carries them (RFC 9110 section 5). */
// @ts-nocheck


/** Each with its value, in the order they are written in. */
export type HeaderList = readonly (readonly [name: string, value: string])[]

export const isHeaderName = (name: string): boolean => /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)

/** Neither a line break, which would begin another header, nor anything else that HTTP does not carry. */
export const isHeaderValue = (value: string): boolean => /^[\t\x20-\x7e\x80-\xff]*$/.test(value)

/** Where a message ends and what becomes of its connection is HTTP's to say; said by a handler, it would have a proxy take bodies apart wrongly. */
const framing = new Set(['content-length', 'transfer-encoding', 'trailer', 'te', 'upgrade', 'keep-alive'])

export function isFraming(name: string, value: string): boolean {
  const lower = name.toLowerCase()
  return framing.has(lower) || (lower === 'connection' && value !== 'close')
}
