/**
 * Watches over the history of a kind. A watch has only a cursor, so a slow watch costs no memory. A watch ends with
 * `Expired` once the history no longer contains its position.
 */
import { ClusterError } from '../../cluster/errors.ts'
import type { Selection } from '../../cluster/port.ts'
import type { Change, History } from './history.ts'
import type { JsonObject } from './json.ts'
import { freeze } from './json.ts'
import { selects, withMetadata } from './objects.ts'

export type StoreEvent =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: JsonObject }
  | { readonly type: 'BOOKMARK'; readonly resourceVersion: string }

/** Why a watch wakes: an object of its kind changed, a bookmark is due, or the store closes. */
export type Signal = 'change' | 'bookmark' | 'close'
export type ChangeNotifier = {
  /** Calls `wake` once, at the next signal; after `close`, immediately. */
  once(wake: (signal: Signal) => void): void
  cancel(wake: (signal: Signal) => void): void
  notify(signal: Signal): void
}

export function createChangeNotifier(): ChangeNotifier {
  const waiting = new Set<(signal: Signal) => void>()
  let closed = false
  return {
    once(wake) {
      if (closed) wake('close')
      else waiting.add(wake)
    },
    cancel: wake => void waiting.delete(wake),
    notify(signal) {
      closed ||= signal === 'close'
      const woken = [...waiting]
      waiting.clear()
      for (const wake of woken) wake(signal)
    },
  }
}

type WatchSource = Selection & {
  readonly history: History
  readonly changeNotifier: ChangeNotifier
  /** The version of the last committed change of any kind. */
  version(): number
}

/** @throws ClusterError `Expired`, `BadRequest` for an invalid version */
export async function* watch(
  source: WatchSource,
  resourceVersion: string,
  abort: AbortSignal,
): AsyncGenerator<StoreEvent, void, undefined> {
  const { history, changeNotifier } = source
  if (abort.aborted) return
  let cursor = startOf(source, resourceVersion)
  let wake = (_signal: Signal): void => undefined
  const onAbort = (): void => wake('close')
  abort.addEventListener('abort', onAbort)
  try {
    while (!abort.aborted) {
      const change = history.at(cursor)
      if (change === 'lost') throw expired(resourceVersion, 'this watch was too slow')
      if (change !== undefined) {
        cursor++
        const event = eventOf(source, change)
        if (event !== undefined) yield event
        continue
      }
      const { promise, resolve } = Promise.withResolvers<Signal>()
      wake = resolve
      changeNotifier.once(wake)
      const woken = await promise
      if (woken === 'close') return
      if (woken === 'bookmark' && history.at(cursor) === undefined) {
        yield { type: 'BOOKMARK', resourceVersion: `${source.version()}` }
      }
    }
  } finally {
    changeNotifier.cancel(wake)
    abort.removeEventListener('abort', onAbort)
  }
}

function startOf(source: WatchSource, resourceVersion: string): number {
  const version = parseVersion(resourceVersion)
  const { oldest } = source.history
  if (version < oldest) throw expired(resourceVersion, `the oldest is ${oldest}`)
  const newest = source.version()
  if (version > newest) {
    const message = `too large resource version: ${resourceVersion}: the newest is ${newest}; list again`
    throw new ClusterError('Expired', message)
  }
  return source.history.cursorAfter(version)
}

/** @throws ClusterError `BadRequest` */
function parseVersion(text: string): number {
  if (/^[0-9]{1,15}$/.test(text)) return Number(text)
  throw new ClusterError('BadRequest', `resourceVersion: Invalid value: ${JSON.stringify(text)}: must be a number`)
}

export const expired = (version: string, why: string): ClusterError =>
  new ClusterError('Expired', `too old resource version: ${version}: ${why}; list again`)

/** The event that a watcher receives for a change; undefined if the change does not concern the watcher. */
function eventOf(source: WatchSource, change: Change): StoreEvent | undefined {
  const { object, previous, deleted, reference, version } = change
  if (source.namespace !== undefined && reference.namespace !== source.namespace) return undefined
  const was = previous !== undefined && selects(source, previous)
  const is = !deleted && selects(source, object)
  if (is) return { type: was ? 'MODIFIED' : 'ADDED', object }
  if (!was) return undefined
  // An object that no longer matches is reported as deleted: its last matching state, with the version of the change.
  const last = deleted ? object : freeze(withMetadata(previous, { resourceVersion: `${version}` }))
  return { type: 'DELETED', object: last }
}
