/**
 * The manifest of a base backup (manual, "Backup Manifest Format"): every file with its size and SHA-256, the WAL
 * needed for recovery, and a digest of the manifest itself.
 */
import { createHash } from 'node:crypto'

type ManifestFile = { readonly path: string; readonly size: number; readonly sha256: string }
export type Manifest = {
  readonly files: ReadonlyMap<string, ManifestFile>
  readonly systemIdentifier: string | undefined
  readonly wal: readonly { timeline: number; start: string; end: string }[]
}

const digestField = '"Manifest-Checksum": "'

/** @throws Error if the manifest is truncated or changed, or is not a manifest of a base backup */
export function parseManifest(bytes: Buffer): Manifest {
  const at = bytes.lastIndexOf(digestField)
  const stated = bytes.toString('latin1', at + digestField.length, at + digestField.length + 64)
  // The digest covers all lines before the digest's own line.
  const actual = createHash('sha256')
    .update(bytes.subarray(0, Math.max(0, at)))
    .digest('hex')
  if (at < 0 || stated !== actual) throw new Error('the manifest of the backup is truncated or was changed')
  const { Files, 'WAL-Ranges': ranges, 'System-Identifier': identifier } = parsed(bytes)
  return {
    files: new Map(listOf(Files).map(file => [pathOf(file), fileOf(file)])),
    systemIdentifier: identifier === undefined ? undefined : String(identifier),
    wal: listOf(ranges).map(range => ({
      timeline: Number(range.Timeline),
      start: String(range['Start-LSN']),
      end: String(range['End-LSN']),
    })),
  }
}

type Fields = Readonly<Record<string, unknown>>

/** The system identifier has more digits than a JavaScript number can hold, so it is parsed as text. */
function parsed(bytes: Buffer): Fields {
  const text = bytes.toString('utf8').replace(/("System-Identifier": )([0-9]+)/, '$1"$2"')
  return Object(JSON.parse(text)) as Fields
}

function listOf(value: unknown): Fields[] {
  if (!Array.isArray(value)) throw new Error('the manifest of the backup lacks a list')
  return value.map(one => Object(one) as Fields)
}

/** Names that are not UTF-8 are written in hexadecimal digits. */
const pathOf = ({ Path, 'Encoded-Path': encoded }: Fields): string =>
  typeof encoded === 'string' ? Buffer.from(encoded, 'hex').toString('utf8') : String(Path)

function fileOf(file: Fields): ManifestFile {
  const { Size: size, Checksum: sha256, 'Checksum-Algorithm': algorithm } = file
  if (algorithm !== 'SHA256' || typeof sha256 !== 'string' || typeof size !== 'number')
    throw new Error(`the manifest of the backup has no SHA-256 of ${pathOf(file)}`)
  return { path: pathOf(file), size, sha256 }
}
