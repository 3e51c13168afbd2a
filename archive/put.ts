/**
 * Writes an object once. Repeating a write with the same content succeeds and changes nothing; other content under the
 * same name is refused. So a sender can always retry, and two servers that archive under one identity cannot overwrite
 * each other's objects.
 */
import { buffer } from 'node:stream/consumers'
import { ArchiveError } from './errors.ts'
import { type Content, mostHeaderBytes, parseHeader } from './object/header.ts'
import type { ArchiveKeys } from './object/key.ts'
import { sealed, type Verification } from './object/seal.ts'
import type { ObjectStore } from './store/store.ts'

export type Archive = { store: ObjectStore; keys: ArchiveKeys }

/** The header of a stored object; undefined if the object does not exist. @throws ArchiveError */
export async function readHeader({ store, keys }: Archive, name: string, signal?: AbortSignal) {
  const start = await store.read(name, { first: 0, length: mostHeaderBytes }, signal)
  if (start === undefined) return undefined
  return parseHeader(await buffer(start), name, keys).header
}

type NewObject = {
  name: string
  content: Content
  source: AsyncIterable<Uint8Array>
  /** SHA-256 of the previous segment. */
  predecessor?: Buffer | undefined
} & Verification

/**
 * @param object `content`: digest and size of the content of `source`
 * @returns `exists` if an object with this content existed before
 * @throws ArchiveError `conflict` if an object with other content exists; `damaged` or `unknown key` if the archive
 *   cannot read the existing object's header; `content differs`; `store`
 */
export async function putOnce(
  archive: Archive,
  object: NewObject,
  signal?: AbortSignal,
): Promise<'created' | 'exists'> {
  const { store, keys } = archive
  const { name, content, source } = object
  if (!store.isConditional) {
    if (await isStored(archive, name, content, signal)) return 'exists'
    await claim(store, name, content, signal)
  }
  const result = await store.create(name, sealed(source, { ...object, keys }), signal)
  if (result === 'exists' && !(await isStored(archive, name, content, signal)))
    throw new ArchiveError({
      kind: 'store',
      name,
      code: 'Gone',
      detail: 'the object was deleted during the request; try again',
      isTemporary: true,
    })
  if (result === 'created') await confirm(archive, name, content, signal)
  return result
}

/** @throws ArchiveError `conflict` if the object has other content; `damaged`, `unknown key`, `store` */
async function isStored(
  archive: Archive,
  name: string,
  content: Content,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const stored = (await readHeader(archive, name, signal))?.content
  if (stored === undefined) return false
  if (stored.sha256 !== content.sha256 || stored.size !== content.size) throw conflict(name, stored.sha256, content)
  return true
}

const conflict = (name: string, stored: string, { sha256: received }: Content) =>
  new ArchiveError({ kind: 'conflict', name, stored, received })

/**
 * For stores without conditional writes: a writer first creates a lock object. The lock's name contains the SHA-256 of
 * the object's content. The writer continues only if no lock with another SHA-256 exists. The writer does not delete
 * the lock. Each writer lists the locks after it has created its own lock. So at least one of two conflicting writers
 * finds both locks.
 */
async function claim(
  store: ObjectStore,
  name: string,
  content: Content,
  signal: AbortSignal | undefined,
): Promise<void> {
  const prefix = `${name}.claim-`
  await store.create(`${prefix}${content.sha256}`, (async function* () {})(), signal)
  for await (const { name: other } of store.list(prefix))
    if (other !== `${prefix}${content.sha256}`) throw conflict(name, other.slice(prefix.length), content)
}

/** Reads the object's header back. Fails if the store acknowledged the object but does not have it. */
async function confirm(
  archive: Archive,
  name: string,
  content: Content,
  signal: AbortSignal | undefined,
): Promise<void> {
  if (await isStored(archive, name, content, signal)) return
  throw new ArchiveError({
    kind: 'store',
    name,
    code: 'NotStored',
    detail: 'the store acknowledged the object but does not have it',
    isTemporary: true,
  })
}
