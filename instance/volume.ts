/**
 * The content of an instance's volume, and the actions for it. The volume's root contains
 *
 *     espalier-identity.json   the volume's owner; written once the data are complete, before they are published
 *     pgdata/                  Postgres's data directory; appears by one rename
 *     pgdata.new-<random>/     data being created by initdb or recovery; can be deleted unless the identity names it
 *     espalier-room            the operator's last write test; can be deleted
 *     espalier-configuration/  the operator's files as Postgres last accepted them
 *     espalier-copy/           of a volume copied from another: see copy.ts
 *     espalier-recovery.json   of one whose data are being created from the archive: see recovery/
 *
 * so a volume that was initialised once is always recognised, even if its data are lost.
 */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { InstanceConfiguration } from './configuration.ts'
import { readIfPresent } from './files.ts'
import type { RecoverySource } from './recovery/source.ts'
import { Refusal } from './refusal.ts'

export const identityFile = 'espalier-identity.json'
export const dataDirectory = 'pgdata'
export const stagingPrefix = 'pgdata.new-'

export type Identity = {
  databaseId: string
  incarnation: number
  /** The number of the member whose data the volume contains; absent: the first. */
  member?: number
  /** RFC 3339. A copy keeps the time of its source. */
  initialisedAt: string
  /** Postgres's major version. */
  pgVersion: string
  /** The directory in which the data were created. They may still be there if the first start was interrupted. */
  staging?: string
}

export type Volume = {
  identity: Identity | 'unreadable' | undefined
  /** `damaged`: the volume has files, but not a complete data directory. */
  data: 'absent' | 'empty' | 'damaged' | 'whole'
  /** Content of PG_VERSION. */
  version: string | undefined
  /** Names of directories in which data were being created. */
  staged: string[]
}

/** The steps that prepare the volume, in order. A prepared volume needs no steps. */
type Step =
  | { do: 'initialise' }
  /** Creates the data from the archive. */
  | { do: 'recover'; source: RecoverySource }
  /** Moves the complete data directory from this name to its final path. */
  | { do: 'publish'; staging: string }
  /** Makes this instance the owner of a copied volume. */
  | { do: 'adopt'; identity: Identity }

function parseIdentity(text: string): Identity | 'unreadable' {
  try {
    const { databaseId, incarnation, member = 0, initialisedAt, pgVersion, staging } = JSON.parse(text)
    const strings = [databaseId, initialisedAt, pgVersion].every(value => typeof value === 'string')
    if (!strings || ![incarnation, member].every(Number.isSafeInteger)) return 'unreadable'
    const isStaging = typeof staging === 'string' && /^pgdata\.new-[0-9a-f]+$/.test(staging)
    const which = { databaseId, incarnation, ...(member === 0 ? {} : { member }) }
    return { ...which, initialisedAt, pgVersion, ...(isStaging ? { staging } : {}) }
  } catch {
    return 'unreadable'
  }
}

/** Reads the volume. Changes nothing. */
export function inspectVolume(root: string): Volume {
  const entries = readdirSync(root)
  const text = readIfPresent(join(root, identityFile))
  const base = {
    identity: text === undefined ? undefined : parseIdentity(text),
    staged: entries.filter(name => name.startsWith(stagingPrefix)),
    version: undefined,
  }
  if (!entries.includes(dataDirectory)) return { ...base, data: 'absent' }
  const data = join(root, dataDirectory)
  if (readdirSync(data).length === 0) return { ...base, data: 'empty' }
  const version = readIfPresent(join(data, 'PG_VERSION'))?.trim()
  const isComplete = version !== undefined && existsSync(join(data, 'global', 'pg_control'))
  return { ...base, version, data: isComplete ? 'whole' : 'damaged' }
}

/**
 * Plans the steps from the volume's content and the operator's configuration.
 * @throws Refusal if a start would destroy data, serve another database's data, or serve an empty database instead of a
 * lost one
 */
export function planVolume(volume: Volume, wanted: InstanceConfiguration): Step[] {
  const { identity, data } = volume
  const published = data === 'whole' || data === 'damaged'
  if (identity === 'unreadable') {
    throw new Refusal('identity-unreadable', `${identityFile} on the volume cannot be parsed`)
  }
  if (identity === undefined) {
    if (published) throw new Refusal('unknown-data', `the volume contains ${dataDirectory} but no ${identityFile}`)
    if (wanted.recover !== undefined) return [{ do: 'recover', source: wanted.recover }]
    if (!wanted.initialise) {
      throw new Refusal('volume-empty', 'the volume is empty, and this database must not be initialised again')
    }
    return [{ do: 'initialise' }]
  }

  const adopt = checkOwner(identity, wanted)
  const versions = published ? [identity.pgVersion, volume.version ?? identity.pgVersion] : [identity.pgVersion]
  const other = versions.find(version => version !== wanted.pgVersion)
  if (other !== undefined) {
    throw new Refusal('wrong-version', `the volume contains data of Postgres ${other}, not ${wanted.pgVersion}`)
  }
  if (data === 'damaged') {
    throw new Refusal(
      'data-lost',
      `${dataDirectory} lacks PG_VERSION or global/pg_control: not a complete data directory`,
    )
  }
  const { staging } = identity
  const publish: Step[] = []
  if (data !== 'whole') {
    if (staging === undefined || !volume.staged.includes(staging)) {
      throw new Refusal(
        'data-lost',
        `the volume was initialised at ${identity.initialisedAt}, and its data are missing`,
      )
    }
    publish.push({ do: 'publish', staging })
  }
  return adopt ? [...publish, { do: 'adopt', identity }] : publish
}

/**
 * Whether the volume is a copy that was not adopted yet. @throws Refusal if it is neither such a copy nor this
 * instance's own volume
 */
function checkOwner(identity: Identity, wanted: InstanceConfiguration): boolean {
  const { databaseId, incarnation, member = 0, prepareCopy = false, copyOf = databaseId } = wanted
  const { member: present = 0 } = identity
  const sameDatabase = identity.databaseId === databaseId
  if (sameDatabase && identity.incarnation === incarnation && present === member) return false
  if (prepareCopy && identity.databaseId === copyOf && isSource(identity, wanted)) return true
  if (!sameDatabase) {
    throw new Refusal('other-database', `the volume belongs to database ${identity.databaseId}, not ${databaseId}`)
  }
  if (identity.incarnation === incarnation)
    throw new Refusal('other-incarnation', `the volume belongs to member ${present} of the database, not ${member}`)
  throw new Refusal(
    'other-incarnation',
    `the volume is incarnation ${identity.incarnation} of the database, not ${incarnation}`,
  )
}

/** Whether a volume is the copied volume. Compares only the values that the operator has specified. */
function isSource(
  { incarnation, member = 0 }: Identity,
  { copyOfIncarnation, copyOfMember = 0 }: InstanceConfiguration,
) {
  return copyOfIncarnation === undefined || (incarnation === copyOfIncarnation && member === copyOfMember)
}
