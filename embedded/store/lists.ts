/** Lists and their pages: every page of a list shows the store as it was at the first one. */
import { ClusterError } from '../../cluster/errors.ts'
import type { KindName } from '../../cluster/kinds.ts'
import type { ListOptions } from '../../cluster/port.ts'
import { type History, listAt, sortKey } from './history.ts'
import { isObject, type JsonObject, type JsonValue } from './json.ts'
import { metadataOf, selects } from './objects.ts'
import type { State } from './state.ts'
import { expired } from './watch.ts'

export type Page = { items: JsonObject[]; resourceVersion: string; continueToken?: string }

/** Where a list goes on: at which version, behind which object. */
type Position = { readonly version: number; readonly after: string }

/** @throws ClusterError `BadRequest`, `Expired` */
export function listPage(
  state: State,
  history: History,
  version: number,
  kind: KindName,
  { namespace, labels, limit, continueToken }: ListOptions,
): Page {
  if (limit !== undefined && !(Number.isInteger(limit) && limit >= 0)) {
    throw new ClusterError('BadRequest', `limit: Invalid value: ${limit}: must be a whole number from 0 on`)
  }
  const position = continueToken === undefined ? { version, after: '' } : parseToken(continueToken)
  if (position.version < history.floor) throw expired(`${position.version}`, 'the list has moved on')
  if (position.version > version) throw new ClusterError('BadRequest', 'continueToken is not of this store')
  const current = state.list(kind, namespace)
  const then = position.version === version ? current : listAt(current, history, position.version, namespace)
  const items = then.filter(object => selects(labels, object) && sortKey(metadataOf(object)) > position.after)
  const resourceVersion = `${position.version}`
  const last = limit === undefined || limit === 0 || items.length <= limit ? undefined : items[limit - 1]
  if (last === undefined) return { items, resourceVersion }
  const token = makeToken({ version: position.version, after: sortKey(metadataOf(last)) })
  return { items: items.slice(0, limit), resourceVersion, continueToken: token }
}

const makeToken = (position: Position): string => Buffer.from(JSON.stringify(position)).toString('base64url')

function parseToken(token: string): Position {
  try {
    const value: JsonValue = JSON.parse(Buffer.from(token, 'base64url').toString())
    if (isObject(value) && typeof value.version === 'number' && typeof value.after === 'string') {
      return { version: value.version, after: value.after }
    }
  } catch {
    // Told below.
  }
  throw new ClusterError('BadRequest', 'continueToken is not valid')
}
