/** Parses a request to the archive: its path, and the client named by its certificate. Has no side effects. */
import {
  type Identity,
  type Incarnation,
  isSegment,
  isUuid,
  isWalFile,
  type Piece,
  parseIdentity,
  parseIncarnation,
  parsePiece,
} from '../names.ts'
import { type Answer, refusal } from './answer.ts'

type BackupObject = { kind: 'part'; number: number } | { kind: 'manifest' } | { kind: 'record' }

export type Target = { readonly incarnation: Incarnation } & (
  | { kind: 'incarnation' }
  /** GET lists WAL files with names greater than `after`. DELETE deletes WAL with a lower position than `before`. */
  | { kind: 'wal'; after: string | undefined; before: string | undefined }
  | { kind: 'wal file'; file: string }
  | { kind: 'tail'; segment: string }
  | { kind: 'piece'; name: string; piece: Piece }
  | { kind: 'backups'; after: string | undefined }
  | { kind: 'backup'; id: string }
  | { kind: 'backup object'; id: string; object: BackupObject }
)

type Parsed<Value> = { kind: 'parsed'; value: Value } | { kind: 'refused'; answer: Answer }
const refused = (answer: Answer): { kind: 'refused'; answer: Answer } => ({ kind: 'refused', answer })
const parsed = <Value>(value: Value): { kind: 'parsed'; value: Value } => ({ kind: 'parsed', value })
const bad = (message: string, status = 400) => refused(refusal(status, 'bad_request', message))
const unknown = refused(refusal(404, 'not_found', 'there is no such path'))

/** `/v1/<id>/<incarnation>` and paths below it. Percent-encoding is not decoded. */
export function parseTarget(target: string): Parsed<Target> {
  const [path = '', query, ...others] = target.split('?')
  const [empty, version, id = '', number = '', folder, ...names] = path.split('/')
  const incarnation = parseIncarnation(id, number)
  if (empty !== '' || version !== 'v1' || others.length > 0 || incarnation === undefined) return unknown
  if (names.length === 0) {
    if (folder === 'wal') return parseWalList(incarnation, new URLSearchParams(query))
    if (folder === 'backups') return parseBackupList(incarnation, new URLSearchParams(query))
  }
  if (query !== undefined) return unknown
  if (folder === undefined) return parsed({ kind: 'incarnation', incarnation })
  const [name = '', ...rest] = names
  if (folder === 'backups') return parseBackup(incarnation, name, rest)
  if (rest.length > 0) return unknown
  if (folder === 'wal') return parseFile(incarnation, name)
  return folder === 'tail' ? parseTail(incarnation, name) : unknown
}

function parseWalList(incarnation: Incarnation, query: URLSearchParams): Parsed<Target> {
  const [after, before] = [query.get('after') ?? undefined, query.get('before') ?? undefined]
  if (after !== undefined && !isWalFile(after)) return bad('after: must be the name of a WAL file')
  if (before !== undefined && !isSegment(before)) return bad('before: must be the name of a segment')
  return parsed({ kind: 'wal', incarnation, after, before })
}

function parseBackupList(incarnation: Incarnation, query: URLSearchParams): Parsed<Target> {
  const after = query.get('after') ?? undefined
  if (after !== undefined && !isUuid(after)) return bad('after: must be the id of a backup')
  return parsed({ kind: 'backups', incarnation, after })
}

const shortened = (text: string): string => JSON.stringify(text.slice(0, 80))

function parseFile(incarnation: Incarnation, file: string): Parsed<Target> {
  if (!isWalFile(file)) return bad(`${shortened(file)} is not the name of a WAL file`)
  return parsed({ kind: 'wal file', incarnation, file })
}

function parseTail(incarnation: Incarnation, name: string): Parsed<Target> {
  if (isSegment(name)) return parsed({ kind: 'tail', incarnation, segment: name })
  const piece = parsePiece(name)
  if (piece === undefined) return bad(`${shortened(name)} is not the name of a segment or of a piece`)
  return parsed({ kind: 'piece', incarnation, name, piece })
}

const partNumber = /^[1-9][0-9]{0,7}$/

function parseBackup(incarnation: Incarnation, id: string, rest: readonly string[]): Parsed<Target> {
  if (!isUuid(id)) return bad(`${shortened(id)} is not the id of a backup`)
  const [name, number = '', ...others] = rest
  if (name === undefined) return parsed({ kind: 'backup', incarnation, id })
  if (name === 'parts' && partNumber.test(number) && others.length === 0)
    return parsed({ kind: 'backup object', incarnation, id, object: { kind: 'part', number: Number(number) } })
  if ((name === 'manifest' || name === 'record') && rest.length === 1)
    return parsed({ kind: 'backup object', incarnation, id, object: { kind: name } })
  return unknown
}

/**
 * The client that a certificate names in its URI. Undefined if the certificate does not have exactly one URI, or if the
 * URI is not an archive URI.
 * @param names the subject alternative names, as Node writes them: `URI:urn:espalier:archive:<id>:<number>`
 */
export function clientOf(names: string | undefined): Identity | undefined {
  const uris = (names ?? '').split(', ').filter(name => name.startsWith('URI:'))
  return uris.length === 1 ? parseIdentity((uris[0] ?? '').slice('URI:'.length)) : undefined
}

/** The methods of each target. `refusalFor` decides which clients may use them. */
const allowedMethods: Record<Target['kind'], readonly string[]> = {
  incarnation: ['DELETE'],
  wal: ['GET', 'DELETE'],
  'wal file': ['GET', 'HEAD', 'PUT'],
  tail: ['GET', 'HEAD'],
  piece: ['HEAD', 'PUT'],
  backups: ['GET'],
  backup: ['DELETE'],
  'backup object': ['GET', 'HEAD', 'PUT'],
}

const isSame = (one: Incarnation, other: Incarnation): boolean =>
  one.databaseId === other.databaseId && one.number === other.number

/** Lists and records describe objects, and contain no user data. */
const isDescription = (target: Target): boolean =>
  target.kind === 'wal' ||
  target.kind === 'backups' ||
  (target.kind === 'backup object' && target.object.kind === 'record')

/** Returns the refusal of a request. Undefined if the client may use this method on this target. */
export function refusalFor(client: Identity, method: string, target: Target): Answer | undefined {
  if (client.kind !== 'operator' && !isSame(client.incarnation, target.incarnation))
    return refusal(403, 'forbidden', 'the certificate is for another database or incarnation')
  const allow = allowedMethods[target.kind]
  if (!allow.includes(method)) {
    const allowed = allow.join(', ')
    return refusal(405, 'method_not_allowed', `method: ${method} is not allowed here; allowed: ${allowed}`, {
      allow: allowed,
    })
  }
  if (client.kind === 'operator')
    return method === 'DELETE' || (method !== 'PUT' && isDescription(target))
      ? undefined
      : refusal(
          403,
          'forbidden',
          'the operator may read lists and records, and delete objects; it may not read or write data',
        )
  // A writer that restarts a backup deletes its incomplete backup. Only the operator may delete a complete backup.
  const mayAbandon = target.kind === 'backup' && client.kind === 'writer'
  if (method === 'DELETE' && !mayAbandon) return refusal(403, 'forbidden', 'only the operator may delete these objects')
  if (method === 'PUT' && client.kind === 'reader')
    return refusal(403, 'forbidden', 'the certificate permits only reads')
  return undefined
}
