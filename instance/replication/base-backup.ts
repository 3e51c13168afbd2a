/**
 * Reads a base backup as Postgres sends it (manual, "Streaming Replication Protocol", BASE_BACKUP): a tar archive for
 * the data directory and for each tablespace, then the manifest. A temporary slot retains the WAL that the backup
 * needs. This WAL is part of the tar archive.
 */
import { randomBytes } from 'node:crypto'
import { bytesOfLsn } from '../archive/wal.ts'
import { ConnectionClosed, columnsOf, PostgresError } from '../protocol/messages.ts'
import { type ReplicationConnection, statusUpdate } from './connection.ts'

/** A WAL position, in Postgres's format, and its timeline. */
export type WalPosition = { readonly position: string; readonly timeline: number }

export type BaseBackupEvent =
  /** Recovery starts at this position. `bytes`: an estimate of the size. */
  | { kind: 'started'; at: WalPosition; bytes: number }
  /** The following data belong to this archive. `tablespace`: its directory; absent for the data directory. */
  | { kind: 'archive'; name: string; tablespace: string | undefined }
  /** The following data belong to the manifest. */
  | { kind: 'manifest' }
  /** Data of the last archive, or of the manifest. */
  | { kind: 'data'; bytes: Buffer }
  /** The number of bytes, of the estimate, that have been sent. */
  | { kind: 'progress'; bytes: number }
  /** Recovery must reach this position before the data are consistent. */
  | { kind: 'ended'; at: WalPosition }

type BaseBackupOptions = {
  /** The label in the backup's label file. */
  label: string
  /** Maximum rate in kB per second. Absent: no limit. */
  maximumRate?: number
}

const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`

/** @throws PostgresError, Error */
export async function* baseBackup(
  connection: ReplicationConnection,
  { label, maximumRate }: BaseBackupOptions,
): AsyncGenerator<BaseBackupEvent> {
  await keepWal(connection)
  const [limit] = await connection.query('SHOW max_slot_wal_keep_size')
  const rate = maximumRate === undefined ? [] : [`MAX_RATE ${maximumRate}`]
  const options = [
    `LABEL ${literal(label)}`,
    "CHECKPOINT 'fast'",
    'PROGRESS',
    'WAL',
    "MANIFEST 'yes'",
    "MANIFEST_CHECKSUMS 'SHA256'",
  ]
  connection.send(`BASE_BACKUP (${[...options, ...rate].join(', ')})`)
  try {
    yield* sent(connection)
  } catch (error) {
    throw isTerminated(error) ? terminated(error, limit?.[0]) : error
  }
}

async function* sent(connection: ReplicationConnection): AsyncGenerator<BaseBackupEvent> {
  const [start, tablespaces] = [await resultOf(connection), await resultOf(connection)]
  yield { kind: 'started', at: positionOf(start), bytes: sizeOf(tablespaces) }
  const { type } = await connection.next()
  if (type !== 'H') throw new Error(`Postgres did not start the backup, but sent a message ${JSON.stringify(type)}`)
  yield* copied(connection)
  const end = await resultOf(connection)
  for (let next = await connection.next(); next.type !== 'Z'; ) next = await connection.next()
  yield { kind: 'ended', at: positionOf(end) }
}

/**
 * SQLSTATE admin_shutdown: Postgres stops, or a checkpoint terminates the owner of a slot that retains too much WAL. If
 * the connection was busy with data, the message is lost.
 */
const isTerminated = (error: unknown): boolean =>
  error instanceof ConnectionClosed || (error instanceof PostgresError && error.code === '57P01')

const terminated = (cause: unknown, limit: string | null | undefined): Error =>
  new Error(
    `Postgres ended the backup: it stops, or more WAL than max_slot_wal_keep_size (${limit}) was written during the backup`,
    { cause },
  )

/**
 * Creates a temporary slot that retains WAL from now on. With RESERVE_WAL, it would retain WAL from the last checkpoint
 * on. If a server has written more than max_slot_wal_keep_size since then, the backup's own checkpoint would end the
 * backup.
 */
async function keepWal(connection: ReplicationConnection): Promise<void> {
  const slot = `espalier_backup_${randomBytes(6).toString('hex')}`
  const [standby] = await connection.query('SHOW in_hot_standby')
  // A backup of a standby starts at the last restart point, so its slot needs RESERVE_WAL.
  if (standby?.[0] === 'on') {
    await connection.query(`CREATE_REPLICATION_SLOT ${slot} TEMPORARY PHYSICAL (RESERVE_WAL)`)
    return
  }
  await connection.query(`CREATE_REPLICATION_SLOT ${slot} TEMPORARY PHYSICAL`)
  const [identity] = await connection.query('IDENTIFY_SYSTEM')
  const { position, timeline } = positionOf([[identity?.[2] ?? null, identity?.[1] ?? null]])
  // A slot that reserved no WAL retains the WAL that its receiver has not acknowledged.
  connection.send(`START_REPLICATION SLOT ${slot} PHYSICAL ${position} TIMELINE ${timeline}`)
  const { type } = await connection.next()
  if (type !== 'W') throw new Error(`Postgres did not start the WAL stream, but sent a message ${JSON.stringify(type)}`)
  connection.copy(statusUpdate(bytesOfLsn(position), false))
  connection.endCopy()
  for (let next = await connection.next(); next.type !== 'Z'; ) next = await connection.next()
  const [slotState] = await connection.query(`READ_REPLICATION_SLOT ${slot}`)
  if (typeof slotState?.[1] !== 'string') throw new Error('Postgres retains no WAL for the slot of the backup')
}

/** The rows of one result: Postgres sends a RowDescription, the rows, and CommandComplete. */
async function resultOf(connection: ReplicationConnection): Promise<(string | null)[][]> {
  const rows: (string | null)[][] = []
  for (;;) {
    const { type, body } = await connection.next()
    if (type === 'D') rows.push(columnsOf(body))
    else if (type === 'C') return rows
    else if (type !== 'T') throw new Error(`Postgres sent a message ${JSON.stringify(type)} within a result`)
  }
}

function positionOf([row]: (string | null)[][]): WalPosition {
  const [position, timeline] = row ?? []
  if (typeof position !== 'string' || !/^[0-9A-F]+\/[0-9A-F]+$/.test(position) || !(Number(timeline) >= 1))
    throw new Error('Postgres sent no valid WAL position')
  return { position, timeline: Number(timeline) }
}

/** The sum of the tablespaces' sizes. Postgres reports them in kB. */
const sizeOf = (tablespaces: (string | null)[][]): number =>
  tablespaces.reduce((sum, [, , size]) => sum + Number(size ?? 0), 0) * 1024

/** The messages between CopyOutResponse and CopyDone. The first byte of each CopyData is its kind. */
async function* copied(connection: ReplicationConnection): AsyncGenerator<BaseBackupEvent> {
  for (;;) {
    const { type, body } = await connection.next()
    if (type === 'c') return
    if (type !== 'd') throw new Error(`Postgres sent a message ${JSON.stringify(type)} within a backup`)
    const rest = body.subarray(1)
    switch (String.fromCharCode(body[0] ?? 0)) {
      case 'd':
        yield { kind: 'data', bytes: rest }
        break
      case 'n':
        yield archiveOf(rest)
        break
      case 'm':
        yield { kind: 'manifest' }
        break
      case 'p':
        yield { kind: 'progress', bytes: Number(rest.readBigInt64BE(0)) }
        break
      default:
        throw new Error('Postgres sent a part of a backup of an unknown kind')
    }
  }
}

function archiveOf(body: Buffer): BaseBackupEvent {
  const [name = '', tablespace = ''] = body.toString('utf8').split('\0')
  return { kind: 'archive', name, tablespace: tablespace === '' ? undefined : tablespace }
}
