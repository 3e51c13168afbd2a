/**
 * The recovery source of a new volume, from `instance.json`: a base backup in the archive, and the moment up to which
 * WAL is replayed. It is validated by hand, since this folder imports only Node's own modules.
 */
import { isRecord } from '../record.ts'

/**
 * This environment variable names the directory with the client's certificate for the archive: `archive.crt`,
 * `archive.key` and `ca.crt`.
 */
export const archiveTlsVariable = 'ESPALIER_ARCHIVE_SOURCE_TLS'

export type RecoveryTarget =
  /** The end of the base backup. */
  | { kind: 'backup' }
  /** The last commit at or before this time, RFC 3339. */
  | { kind: 'time'; time: string }
  /** All WAL records that begin before this position. */
  | { kind: 'lsn'; lsn: string }
  /** A restore point that `pg_create_restore_point` created. */
  | { kind: 'name'; name: string }

export type RecoverySource = {
  /** The archive's address: `https://host:port`. */
  archive: string
  /** The owner of the data: the id of a database, and the number of its volume. */
  id: string
  incarnation: number
  /** The id of the base backup. */
  backup: string
  target: RecoveryTarget
  /** The archive contains all WAL at least up to this position. A recovery that ends before it fails. */
  through?: string
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const lsnText = /^[0-9A-F]{1,8}\/[0-9A-F]{1,8}$/
const timeText = /^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})$/
/** A name within Postgres's limit of 63 bytes. */
const pointText = /^[\x20-\x7e]{1,63}$/

const isText = (value: unknown, pattern: RegExp): value is string => typeof value === 'string' && pattern.test(value)

function parseTarget(value: unknown): RecoveryTarget | undefined {
  if (!isRecord(value)) return undefined
  const { kind, time, lsn, name } = value
  if (kind === 'backup') return { kind }
  if (kind === 'time' && isText(time, timeText)) return { kind, time }
  if (kind === 'lsn' && isText(lsn, lsnText)) return { kind, lsn }
  if (kind === 'name' && isText(name, pointText)) return { kind, name }
  return undefined
}

/** Returns the source, or the name of the invalid field. */
export function parseRecoverySource(value: unknown): RecoverySource | { wrong: string } {
  if (!isRecord(value)) return { wrong: 'recover' }
  const { archive, id, incarnation, backup, through } = value
  const target = parseTarget(value.target)
  if (typeof archive !== 'string' || URL.parse(archive)?.protocol !== 'https:') return { wrong: 'recover.archive' }
  if (!isText(id, uuid)) return { wrong: 'recover.id' }
  if (typeof incarnation !== 'number' || !Number.isSafeInteger(incarnation) || incarnation < 1)
    return { wrong: 'recover.incarnation' }
  if (!isText(backup, uuid)) return { wrong: 'recover.backup' }
  if (target === undefined) return { wrong: 'recover.target' }
  if (through !== undefined && !isText(through, lsnText)) return { wrong: 'recover.through' }
  return { archive, id, incarnation, backup, target, ...(through === undefined ? {} : { through }) }
}

/** Converts a WAL position to a number of bytes. */
export function bytesOfLsn(lsn: string): bigint {
  const [high = '0', low = '0'] = lsn.split('/')
  return (BigInt(`0x${high}`) << 32n) | BigInt(`0x${low}`)
}
