/**
 * The URI of the source of an import. The API writes it encrypted, users write it as plain text; this function reads
 * both.
 */
import { isSealed, open, secretLocation } from './credentials.ts'

const field = 'uri'
/** Longer URIs are not accepted. */
const longest = 16 * 1024

type StoredSecret = {
  metadata: { namespace?: string | undefined; name: string }
  data?: Readonly<Record<string, string>> | undefined
}

/** @returns undefined if the Secret has no such field. @throws SealError */
export function openImportSource(key: Uint8Array, { metadata, data }: StoredSecret): string | undefined {
  const stored = data?.[field]?.slice(0, longest)
  if (stored === undefined) return undefined
  const text = Buffer.from(stored, 'base64').toString('utf8')
  return isSealed(text) ? open(key, secretLocation(metadata.namespace ?? '', metadata.name, field), text) : text.trim()
}
