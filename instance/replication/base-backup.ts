/**
 * A base backup as Postgres sends it (manual, "Streaming Replication Protocol", BASE_BACKUP): a tar archive for the data directory and
 * each tablespace, then the manifest. A temporary slot keeps the WAL that the backup needs, which is within the archive.
 */
import { randomBytes } from 'node:crypto'
import { columnsOf } from '../protocol/messages.ts'
import type { ReplicationConnection } from './connection.ts'

/** A position in WAL, as Postgres writes it, and its timeline. */
export type WalPosition = { readonly position: string; readonly timeline: number }

export type BaseBackupEvent =
  /** Recovery begins at this position. `bytes`: an estimate of what follows. */
  | { kind: 'started'; at: WalPosition; bytes: number }
  /** What follows is of this archive. `tablespace`: its directory; absent for the data directory. */
  | { kind: 'archive'; name: string; tablespace: string | undefined }
  /** What follows is of the manifest. */
  | { kind: 'manifest' }
  /** Of the archive or manifest that was begun last. */
  | { kind: 'data'; bytes: Buffer }
  /** How many bytes of the estimate have been sent. */
  | { kind: 'progress'; bytes: number }
  /** Recovery must reach this position before the data are consistent. */
  | { kind: 'ended'; at: WalPosition }

type BaseBackupOptions = {
  /** In the backup's label file. */
  label: string
  /** The most that is sent in a second, in kB. Absent: no limit. */
  maximumRate?: number
}

const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`

/** @throws PostgresError, Error */
export async function* baseBackup(
  connection: ReplicationConnection,
  { label, maximumRate }: BaseBackupOptions,
): AsyncGenerator<BaseBackupEvent> {
  const slot = `espalier_backup_${randomBytes(6).toString('hex')}`
  await connection.query(`CREATE_REPLICATION_SLOT ${slot} TEMPORARY PHYSICAL (RESERVE_WAL)`)
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
  const [start, tablespaces] = [await resultOf(connection), await resultOf(connection)]
  yield { kind: 'started', at: positionOf(start), bytes: sizeOf(tablespaces) }
  const { type } = await connection.next()
  if (type !== 'H') throw new Error(`Postgres began no backup, but sent a message ${JSON.stringify(type)}`)
  yield* copied(connection)
  const end = await resultOf(connection)
  for (let next = await connection.next(); next.type !== 'Z'; ) next = await connection.next()
  yield { kind: 'ended', at: positionOf(end) }
}

/** The rows of one result: a RowDescription, its rows, and CommandComplete. */
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
    throw new Error('Postgres sent no position in WAL')
  return { position, timeline: Number(timeline) }
}

/** Sizes are in kB. */
const sizeOf = (tablespaces: (string | null)[][]): number =>
  tablespaces.reduce((sum, [, , size]) => sum + Number(size ?? 0), 0) * 1024

/** What comes between CopyOutResponse and CopyDone: each CopyData begins with a byte that says what it is. */
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
