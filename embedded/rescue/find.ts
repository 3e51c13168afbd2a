/** Finds the volumes on the disk by their records and data. Changes nothing. */
import { closeSync, existsSync, openSync, readdirSync, readFileSync, readSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { dataDirectory, type Identity, inspectVolume } from '../../instance/volume.ts'
import { recordFile } from '../runtime/volumes/persistent-volume.ts'
import { parseRecord, type VolumeRecord } from './record.ts'

export type FoundVolume = {
  namespace: string
  /** The last part of the volume's handle: the uid of the claim that it was created for. */
  uid: string
  directory: string
  /** Undefined if the volume was never initialised, or its identity cannot be read. */
  identity: Identity | undefined
  /** Postgres's system identifier of the data; undefined without a complete data directory. */
  systemIdentifier: string | undefined
  record: VolumeRecord | undefined
}

const directoriesIn = (path: string): string[] =>
  existsSync(path)
    ? readdirSync(path, { withFileTypes: true })
        .filter(entry => entry.isDirectory())
        .map(({ name }) => name)
    : []

/** @param locations directories of volumes, each with one directory per namespace */
export function findVolumes(locations: readonly string[]): FoundVolume[] {
  return locations.flatMap(location =>
    directoriesIn(location).flatMap(namespace =>
      directoriesIn(join(location, namespace)).map(uid => inspect(namespace, uid, join(location, namespace, uid))),
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

/** The first eight bytes of pg_control, in the machine's byte order. */
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

/** Disk usage of a directory's files, in bytes. */
export function bytesIn(directory: string): number {
  let bytes = 0
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) bytes += statSync(join(entry.parentPath, entry.name)).size
  }
  return bytes
}
