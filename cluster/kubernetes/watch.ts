/** A watch on the API server as an async iterable (Kubernetes, "Efficient detection of changes"). */
import type { Logger } from 'pino'
import { z } from 'zod'
import { ClusterError } from '../errors.ts'
import type { KindName, Kinds } from '../kinds.ts'
import type { WatchEvent, WatchOptions } from '../port.ts'
import type { Limits } from './limits.ts'
import { linesOf } from './lines.ts'
import { collectionPath, fieldsText, queryText, selectorText } from './paths.ts'
import { refusalOf, refusalOfEvent } from './status.ts'
import type { Transport } from './transport.ts'

const event = z.object({
  type: z.enum(['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR']),
  object: z.looseObject({ metadata: z.looseObject({ resourceVersion: z.string().optional() }).optional() }),
})

/** The path of a watch. The server ends the watch after a random time between one and two `watchSeconds`. */
function watchPath(kind: KindName, options: WatchOptions, watchSeconds: number): string {
  const { namespace, labels, resourceVersion } = options
  const query = queryText({
    watch: true,
    allowWatchBookmarks: true,
    resourceVersion,
    labelSelector: selectorText(labels),
    fieldSelector: fieldsText(kind, options),
    timeoutSeconds: Math.ceil(watchSeconds * (1 + Math.random())),
  })
  return `${collectionPath(kind, namespace)}${query}`
}

/** See Cluster.watch. */
export async function* watchKind<K extends KindName>(
  transport: Transport,
  limits: Limits,
  logger: Logger,
  kind: K,
  options: WatchOptions,
): AsyncGenerator<WatchEvent<Kinds[K]>> {
  const { signal } = options
  if (signal.aborted) return
  const opened = await transport.stream(watchPath(kind, options, limits.watchSeconds), signal)
  if (!('chunks' in opened)) throw refusalOf(opened.code, opened.text, opened.retryAfter)
  for await (const line of linesOf(opened.chunks, limits.eventBytes)) {
    if (signal.aborted) return
    const read = readEvent<K>(line)
    if (read !== undefined) yield read
    if (signal.aborted) return
  }
  if (!signal.aborted) logger.debug({ kind }, 'the API server ended a watch')
}

/** Parses one line of a watch; undefined for a bookmark without a version. */
function readEvent<K extends KindName>(line: string): WatchEvent<Kinds[K]> | undefined {
  const { type, object } = parseEvent(line)
  if (type === 'ERROR') throw refusalOfEvent(object)
  if (type === 'BOOKMARK') {
    const resourceVersion = object.metadata?.resourceVersion
    return resourceVersion === undefined ? undefined : { type, resourceVersion }
  }
  // The API server validates its objects against the schema that the type is derived from.
  return { type, object: object as unknown as Kinds[K] }
}

function parseEvent(line: string): z.output<typeof event> {
  try {
    return event.parse(JSON.parse(line))
  } catch (error) {
    throw new ClusterError('Unavailable', 'the API server sent an invalid watch event', { cause: error })
  }
}
