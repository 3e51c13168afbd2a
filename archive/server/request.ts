/** What a request to the archive asks for, pure: its path, and the client that its certificate names. */

import { type Incarnation, isWalFile, parseIdentity, parseIncarnation } from '../names.ts'
import type { Content } from '../object/header.ts'
import { type Answer, refusal } from './answer.ts'

export type Target =
  /** All WAL files of an incarnation, those after `after` only. */
  | { kind: 'wal list'; incarnation: Incarnation; after: string | undefined }
  | { kind: 'wal file'; incarnation: Incarnation; file: string }

type Parsed<Value> = { kind: 'parsed'; value: Value } | { kind: 'refused'; answer: Answer }
const refused = (answer: Answer): { kind: 'refused'; answer: Answer } => ({ kind: 'refused', answer })

/** The largest file: `wal_segment_size` is 16 MB in databases of Espalier. */
export const mostFileBytes = 64 * 1024 * 1024

/** `/v1/<id>/<incarnation>/wal` or `/v1/<id>/<incarnation>/wal/<file>`. Nothing is decoded. */
export function parseTarget(target: string): Parsed<Target> {
  const unknown = refused(refusal(404, 'not_found', 'there is no such path'))
  const [path = '', query, ...others] = target.split('?')
  const [empty, version, id = '', number = '', folder, file, ...rest] = path.split('/')
  if (empty !== '' || version !== 'v1' || folder !== 'wal' || rest.length > 0 || others.length > 0) return unknown
  const incarnation = parseIncarnation(id, number)
  if (incarnation === undefined) return unknown
  if (file === undefined) {
    const after = query === undefined ? undefined : new URLSearchParams(query).get('after')
    if (after === null || (after !== undefined && !isWalFile(after)))
      return refused(refusal(400, 'bad_request', 'after: must be the name of a WAL file'))
    return { kind: 'parsed', value: { kind: 'wal list', incarnation, after } }
  }
  if (query !== undefined) return unknown
  if (!isWalFile(file))
    return refused(refusal(400, 'bad_request', `${JSON.stringify(file.slice(0, 80))} is not the name of a WAL file`))
  return { kind: 'parsed', value: { kind: 'wal file', incarnation, file } }
}

/**
 * The incarnation that a certificate names, by its one subject alternative name of the type URI.
 * @param names as Node writes them: `URI:urn:espalier:archive:<id>:<number>`
 */
export function clientOf(names: string | undefined): Incarnation | undefined {
  const uris = (names ?? '').split(', ').filter(name => name.startsWith('URI:'))
  return uris.length === 1 ? parseIdentity((uris[0] ?? '').slice('URI:'.length)) : undefined
}

export const isSame = (one: Incarnation, other: Incarnation): boolean =>
  one.databaseId === other.databaseId && one.number === other.number

/** Digest (RFC 9530, `content-digest: sha-256=:<base64>:`) and size of a body that is to be archived. */
export function parseContent(headers: { [name: string]: string | string[] | undefined }): Parsed<Content> {
  const bad = (message: string, status = 400) => refused(refusal(status, 'bad_request', message))
  const length = headers['content-length']
  if (typeof length !== 'string') return bad('content-length: is required', 411)
  const size = Number(length)
  if (size > mostFileBytes) return bad(`content-length: at most ${mostFileBytes} bytes`, 413)
  const digest = headers['content-digest']
  const found = typeof digest === 'string' ? /^sha-256=:([A-Za-z0-9+/]{43}=):$/.exec(digest) : null
  if (found?.[1] === undefined) return bad('content-digest: must be sha-256=:<base64>:')
  return { kind: 'parsed', value: { sha256: Buffer.from(found[1], 'base64').toString('hex'), size } }
}

export const renderContentDigest = ({ sha256 }: Content): string =>
  `sha-256=:${Buffer.from(sha256, 'hex').toString('base64')}:`
