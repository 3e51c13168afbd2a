/** Lists and their pages: every page shows the store at the version of the first page. */
import { ClusterError } from '../../cluster/errors.ts'
import type { KindName } from '../../cluster/kinds.ts'
import type { ListOptions } from '../../cluster/port.ts'
import { type History, listAt, sortKey } from './history.ts'
import { isObject, type JsonObject, type JsonValue, textIn } from './json.ts'
import { metadataOf, selects } from './objects.ts'
import type { State } from './state.ts'
import { expired } from './watch.ts'

export type Page = { items: JsonObject[]; resourceVersion: string; continueToken?: string }

/** Where the next page continues: the version, and the last returned object. */
type Position = { readonly version: number; readonly after: string }

/** @throws ClusterError `BadRequest`, `Expired` */
export function listPage(
  state: State,
  history: History,
  version: number,
  kind: KindName,
  { namespace, labels, open, about, limit, continueToken }: ListOptions,
): Page {
  if (limit !== undefined && !(Number.isInteger(limit) && limit >= 0)) {
    throw new ClusterError('BadRequest', `limit: Invalid value: ${limit}: must be a whole number from 0 on`)
  }
  const position = continueToken === undefined ? { version, after: '' } : parseToken(continueToken)
  if (position.version < history.oldest) throw expired(`${position.version}`, 'the list is too old to continue')
  if (position.version > version)
    throw new ClusterError('BadRequest', 'continueToken: from another store or a newer state; list again without it')
  const current = state.list(kind, namespace)
  const then = position.version === version ? current : listAt(current, history, position.version, namespace)
  const most = limit === undefined || limit === 0 ? Number.POSITIVE_INFINITY : limit
  const items: JsonObject[] = []
  const resourceVersion = `${position.version}`
  for (let index = firstAfter(then, position.after); index < then.length; index++) {
    const object = then[index]
    if (object === undefined || !selects({ labels, open }, object)) continue
    if (about !== undefined && textIn(object.involvedObject, 'uid') !== about) continue
    const last = items.at(-1)
    if (items.length === most && last !== undefined) {
      const continueToken = makeToken({ version: position.version, after: sortKey(metadataOf(last)) })
      return { items, resourceVersion, continueToken }
    }
    items.push(object)
  }
  return { items, resourceVersion }
}

/** The index of the first object after a position, in a sorted list. */
function firstAfter(objects: readonly JsonObject[], after: string): number {
  let low = 0
  let high = after === '' ? 0 : objects.length
  while (low < high) {
    const middle = (low + high) >>> 1
    const object = objects[middle]
    if (object !== undefined && sortKey(metadataOf(object)) <= after) low = middle + 1
    else high = middle
  }
  return low
}

const makeToken = (position: Position): string => Buffer.from(JSON.stringify(position)).toString('base64url')

function parseToken(token: string): Position {
  try {
    const value: JsonValue = JSON.parse(Buffer.from(token, 'base64url').toString())
    if (isObject(value) && typeof value.version === 'number' && typeof value.after === 'string') {
      return { version: value.version, after: value.after }
    }
  } catch {
    // Reported below.
  }
  throw new ClusterError('BadRequest', 'continueToken: invalid; list again without it')
}
