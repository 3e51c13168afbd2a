/**
 * Checks at the start that the configured key is the store's. A key that was lost and made anew must not begin a second archive beside
 * objects that it cannot read.
 */
import { createHash } from 'node:crypto'
import { ArchiveError } from './errors.ts'
import { keyCheckName } from './names.ts'
import type { ArchiveKeys } from './object/key.ts'
import { putOnce, readHeader } from './put.ts'
import type { ObjectStore } from './store/store.ts'

const text = Buffer.from('The archive in this place is sealed with the key that this object is sealed with.\n')
const content = { sha256: createHash('sha256').update(text).digest('hex'), size: text.length }

/**
 * Writes the object by which the key is checked if the store is empty, and reads it otherwise.
 * @throws ArchiveError `wrong key` unless the key is that of the store, `damaged`, `store`
 */
export async function checkKey(store: ObjectStore, keys: ArchiveKeys): Promise<void> {
  const header = await readHeader({ store, keys }, keyCheckName).catch(explained(store))
  if (header !== undefined) return
  for await (const { name } of store.list('')) {
    throw new ArchiveError({
      kind: 'wrong key',
      detail: `${store.location} has objects, such as ${name}, and no ${keyCheckName} that tells their key: nothing is written. Restore that object, or use another place`,
    })
  }
  await putOnce({ store, keys }, { name: keyCheckName, content, source: source() }).catch(explained(store))
}

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
        detail: `${location} was made with the key ${error.fault.keyId}, which is not configured: nothing is written. Configure that key, or use another place`,
      },
      { cause: error },
    )
  }
