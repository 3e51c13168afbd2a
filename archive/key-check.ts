/**
 * Checks at startup that the store's key is configured. With another key, the archive cannot decrypt the store's
 * objects, so it must not add objects.
 */
import { createHash } from 'node:crypto'
import { ArchiveError } from './errors.ts'
import { keyCheckName, probePrefix } from './names.ts'
import type { ArchiveKeys } from './object/key.ts'
import { putOnce, readHeader } from './put.ts'
import type { ObjectStore } from './store/store.ts'

/** Do not change the text: replicas of different versions compare its digest. */
const text = Buffer.from('The archive in this place is sealed with the key that this object is sealed with.\n')
const content = { sha256: createHash('sha256').update(text).digest('hex'), size: text.length }

/**
 * Reads the key-check object. Writes it if the store has no objects except those of a start.
 * @throws ArchiveError `wrong key` if the store's key is not configured or cannot be checked; `damaged`; `store`
 */
export async function checkKey(store: ObjectStore, keys: ArchiveKeys): Promise<void> {
  const isThere = async () => (await readHeader({ store, keys }, keyCheckName).catch(explained(store))) !== undefined
  if (await isThere()) return
  for await (const { name } of store.list('')) {
    if (isOfStart(name)) continue
    // Another replica that starts at the same time may have written the key-check object after the first check.
    if (await isThere()) return
    throw new ArchiveError({
      kind: 'wrong key',
      detail: `${store.location} has objects, such as ${name}, but no ${keyCheckName} object. Espalier cannot check the key, and stores nothing there. Restore the object ${keyCheckName}, or use another location`,
    })
  }
  await putOnce({ store, keys }, { name: keyCheckName, content, source: source() }).catch(explained(store))
}

/** Whether a starting archive can write the object before the key-check object: a probe object, or a lock for it. */
const isOfStart = (name: string): boolean => name.startsWith(probePrefix) || name.startsWith(`${keyCheckName}.claim-`)

async function* source() {
  yield text
}

const explained =
  ({ location }: ObjectStore) =>
  (error: unknown): never => {
    if (!(error instanceof ArchiveError) || error.fault.kind !== 'unknown key') throw error
    throw new ArchiveError(
      {
        kind: 'wrong key',
        detail: `${location} was created with the key ${error.fault.keyId}, which is not configured. Espalier stores nothing there. Configure that key, or use another location`,
      },
      { cause: error },
    )
  }
