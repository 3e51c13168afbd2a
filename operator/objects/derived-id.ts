/**
 * Derives ids of operations that were requested without an id. Another process derives the same id, so a crash causes
 * no second Task.
 */
import { createHash } from 'node:crypto'

/** A UUID that is always the same for the same text: version 8 (RFC 9562, section 5.8) over SHA-256. */
export function derivedId(text: string): string {
  const hex = createHash('sha256').update(`espalier/operation/${text}`).digest('hex')
  const variant = ((Number.parseInt(hex.slice(16, 18), 16) & 0x3f) | 0x80).toString(16)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-${variant}${hex.slice(18, 20)}-${hex.slice(20, 32)}`
}
