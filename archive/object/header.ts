/**
 * The header of an object describes the object's content. The header is authenticated, but not encrypted. A reader
 * refuses an object that was moved to another name, or whose header was changed.
 *
 *     magic "ESPARCH1" | length of the JSON, 4 bytes big endian | JSON | HMAC-SHA256 of all bytes before it
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { z } from 'zod'
import { ArchiveError } from '../errors.ts'
import { type ArchiveKeys, keyById, objectKeys } from './key.ts'

const magic = Buffer.from('ESPARCH1', 'ascii')
const lengthBytes = 4
const tagBytes = 32
const fixedBytes = magic.length + lengthBytes
/** The maximum size of a header. To read a header, a reader requests this many bytes. */
export const mostHeaderBytes = 4096
export const saltBytes = 32

const sha256 = z.string().regex(/^[0-9a-f]{64}$/)
/** SHA-256 and size in bytes of an object's content, before compression. */
export const contentText = z.strictObject({ sha256, size: z.int().min(0) })
export type Content = z.output<typeof contentText>

const headerText = z.strictObject({
  /** The name of the object in the archive. */
  name: z.string().min(1).max(1024),
  key: z.string().regex(/^[0-9a-f]{16}$/),
  salt: z.base64().length(44),
  compression: z.enum(['none', 'zstd']),
  /** Absent if the writer did not know the content when it wrote the header. */
  content: contentText.optional(),
})
export type ObjectHeader = z.output<typeof headerText>

export function renderHeader(header: ObjectHeader, headerKey: Uint8Array): Buffer {
  const text = Buffer.from(JSON.stringify(header))
  const length = Buffer.alloc(lengthBytes)
  length.writeUInt32BE(text.length)
  const bytes = Buffer.concat([magic, length, text])
  return Buffer.concat([bytes, createHmac('sha256', headerKey).update(bytes).digest()])
}

/** The header's size, read from the first 12 bytes. Undefined if these bytes are not the start of a valid header. */
function headerLength(bytes: Uint8Array): number | undefined {
  if (bytes.length < fixedBytes || !magic.equals(bytes.subarray(0, magic.length))) return undefined
  const length = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).readUInt32BE(magic.length)
  const headerBytes = fixedBytes + length + tagBytes
  return headerBytes <= mostHeaderBytes ? headerBytes : undefined
}

type ReadHeader = { header: ObjectHeader; length: number; frameKey: Buffer }

/**
 * @param bytes the first 4096 bytes of an object, or the complete object if it is shorter
 * @param name the name under which the object was read
 * @throws ArchiveError `damaged`, `unknown key`
 */
export function parseHeader(bytes: Uint8Array, name: string, keys: ArchiveKeys): ReadHeader {
  const damaged = (detail: string) => new ArchiveError({ kind: 'damaged', name, detail })
  const length = headerLength(bytes)
  if (length === undefined) throw damaged('it does not begin with the header of an object')
  if (bytes.length < length) throw damaged(`it ends after ${bytes.length} bytes, within its header`)
  const signed = bytes.subarray(0, length - tagBytes)
  const header = headerOf(signed.subarray(fixedBytes))
  if (header === undefined) throw damaged('its header cannot be read')
  const key = keyById(keys, header.key)
  if (key === undefined) throw new ArchiveError({ kind: 'unknown key', name, keyId: header.key })
  const derived = objectKeys(key, Buffer.from(header.salt, 'base64'))
  const tag = createHmac('sha256', derived.header).update(signed).digest()
  if (!timingSafeEqual(tag, bytes.subarray(length - tagBytes, length))) throw damaged('its header was changed')
  if (header.name !== name) throw damaged(`it was archived as ${header.name}`)
  return { header, length, frameKey: derived.frames }
}

function headerOf(text: Uint8Array): ObjectHeader | undefined {
  try {
    return headerText.safeParse(JSON.parse(Buffer.from(text).toString())).data
  } catch {
    return undefined
  }
}
