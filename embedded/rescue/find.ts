/** Finds the volumes that stand on the disk, by what they say of themselves. Nothing is changed. */
import { closeSync, existsSync, openSync, readdirSync, readFileSync, readSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { dataDirectory, type Identity, inspectVolume } from '../../instance/volume.ts'
import { recordFile } from '../runtime/volumes/persistent-volume.ts'
import { parseRecord, type VolumeRecord } from './record.ts'

export type FoundVolume = {
  namespace: string
  /** The last part of its handle: the uid of the claim that it was made for. */
  uid: string
  directory: string
  /** Undefined where nothing was ever initialised on it, or its identity cannot be read. */
  identity: Identity | undefined
  /** Postgres's own number of the data; undefined without a whole data directory. */
  systemIdentifier: string | undefined
  record: VolumeRecord | undefined
}

const directoriesIn = (path: string): string[] =>
  existsSync(path)
    ? readdirSync(path, { withFileTypes: true })
        .filter(entry => entry.isDirectory())
        .map(({ name }) => name)
    : []

/** @param places directories of volumes, each with one directory a namespace */
export function findVolumes(places: readonly string[]): FoundVolume[] {
  return places.flatMap(place =>
    directoriesIn(place).flatMap(namespace =>
      directoriesIn(join(place, namespace)).map(uid => inspect(namespace, uid, join(place, namespace, uid))),
    ),
  )
}

function inspect(namespace: string, uid: string, directory: string): FoundVolume {
  const { identity, data } = inspectVolume(directory)
  const file = recordFile(directory)
  return {
    namespace,
    uid,
    directory,
    identity: identity === 'unreadable' ? undefined : identity,
    systemIdentifier: data === 'whole' ? readSystemIdentifier(directory) : undefined,
    record: existsSync(file) ? parseRecord(readFileSync(file, 'utf8')) : undefined,
  }
}

/** The first eight bytes of pg_control, in the machine's order. */
function readSystemIdentifier(directory: string): string {
  const descriptor = openSync(join(directory, dataDirectory, 'global', 'pg_control'), 'r')
  try {
    const bytes = Buffer.alloc(8)
    readSync(descriptor, bytes, 0, 8, 0)
    return String(bytes.readBigUInt64LE())
  } finally {
    closeSync(descriptor)
  }
}

/** What the files of a directory take on the disk, in bytes. */
export function bytesIn(directory: string): number {
  let bytes = 0
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) bytes += statSync(join(entry.parentPath, entry.name)).size
  }
  return bytes
}
