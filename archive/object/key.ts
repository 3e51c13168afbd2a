/** The keys that encrypt objects. Each object has its own keys, derived from an archive key and the object's salt. */
import { createHash, hkdfSync } from 'node:crypto'

/** An archive key: 32 random bytes and an id. Object headers contain the id. */
type ArchiveKey = { readonly id: string; readonly bytes: Uint8Array }
/** `current` encrypts new objects. The `previous` keys decrypt older objects. */
export type ArchiveKeys = { readonly current: ArchiveKey; readonly previous: readonly ArchiveKey[] }

const keyBytes = 32

/** @throws RangeError if `bytes` does not have 32 bytes */
export function archiveKey(bytes: Uint8Array): ArchiveKey {
  if (bytes.length !== keyBytes) throw new RangeError(`an archive key has ${keyBytes} bytes, not ${bytes.length}`)
  const digest = createHash('sha256').update('espalier archive key\0').update(bytes).digest('hex')
  return { id: digest.slice(0, 16), bytes }
}

export const keyById = ({ current, previous }: ArchiveKeys, id: string): ArchiveKey | undefined =>
  [current, ...previous].find(key => key.id === id)

/** The keys of one object (RFC 5869): one authenticates its header, the other encrypts its frames. */
export function objectKeys({ bytes }: ArchiveKey, salt: Uint8Array): { header: Buffer; frames: Buffer } {
  const derived = (purpose: string) => Buffer.from(hkdfSync('sha256', bytes, salt, `espalier archive ${purpose}`, 32))
  return { header: derived('header'), frames: derived('frames') }
}
