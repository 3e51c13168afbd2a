/**
 * The port `Cluster` on a real API server. @kubernetes/client-node reads kubeconfigs. Objects are sent as plain JSON,
 * so that RFC 3339 text remains text and no field is lost that a typed model does not know. Nothing is retried here:
 * the caller decides about retries.
 */
import type { Logger } from 'pino'
import { ClusterError, isClusterError } from '../errors.ts'
import type { KindName, Kinds } from '../kinds.ts'
import { kindInfo } from '../kinds.ts'
import type { Cluster, DeleteOptions, Draft, ListOptions, ListResult, LogOptions, ObjectKey } from '../port.ts'
import { findAccess } from './configuration.ts'
import { defaultLimits, type Limits } from './limits.ts'
import { collectionPath, fieldsText, objectPath, queryText, requiredCollection, selectorText } from './paths.ts'
import { refusalOf } from './status.ts'
import { type HttpAnswer, type HttpRequest, openTransport } from './transport.ts'
import { watchKind } from './watch.ts'

export type KubernetesOptions = {
  /** The field manager of applies; at most 128 characters. */
  fieldManager: string
  /** A kubeconfig file. If omitted: the pod's own service account; otherwise KUBECONFIG; otherwise ~/.kube/config. */
  kubeconfig?: string
  logger: Logger
  limits?: Partial<Limits>
  /** Receives the API server's clock, ms since the epoch, with every response. */
  onDate?: (serverMs: number) => void
}

const json = 'application/json'

/**
 * Creates a client of the cluster. It connects with its first request: if the server is down, that request fails as
 * `Unavailable`.
 * @throws Error if no cluster is configured
 */
export async function connectKubernetes(options: KubernetesOptions): Promise<Cluster & { close(): Promise<void> }> {
  const { fieldManager, logger } = options
  const limits: Limits = { ...defaultLimits, ...options.limits }
  const transport = openTransport(await findAccess(options.kubeconfig), limits, options.onDate)

  const send = async (request: HttpRequest): Promise<HttpAnswer> => {
    const answer = await transport.send(request)
    if (answer.code < 200 || answer.code >= 300) throw refusalOf(answer.code, answer.text, answer.retryAfter)
    return answer
  }
  const write = async <K extends KindName>(
    method: 'POST' | 'PUT' | 'PATCH',
    path: string,
    object: Draft<K> | Kinds[K],
    type = json,
  ): Promise<Kinds[K]> => {
    const query = queryText({ fieldManager, fieldValidation: 'Strict', force: method === 'PATCH' ? true : undefined })
    return readObject<Kinds[K]>(
      await send({ method, path: `${path}${query}`, body: { type, text: JSON.stringify(object) } }),
    )
  }

  return {
    get: async <K extends KindName>(kind: K, key: ObjectKey) => {
      try {
        return readObject<Kinds[K]>(await send({ method: 'GET', path: objectPath(kind, key) }))
      } catch (error) {
        if (isClusterError(error, 'NotFound')) return undefined
        throw error
      }
    },

    list: async <K extends KindName>(kind: K, options: ListOptions = {}) => {
      const { namespace, labels, limit, continueToken } = options
      const selectors = { labelSelector: selectorText(labels), fieldSelector: fieldsText(kind, options) }
      const query = queryText({ ...selectors, limit, continue: continueToken })
      const path = `${collectionPath(kind, namespace)}${query}`
      return readList(kind, await send({ method: 'GET', path }))
    },

    watch: (kind, watch) => watchKind(transport, limits, logger, kind, watch),

    create: async (kind, object) => write('POST', requiredCollection(kind, object.metadata.namespace), object),

    replace: async (kind, object) => {
      requireVersion(object.metadata.resourceVersion)
      return write('PUT', objectPath(kind, object.metadata), object)
    },

    apply: async (kind, object) =>
      write('PATCH', objectPath(kind, object.metadata), object, 'application/apply-patch+yaml'),

    replaceStatus: async (kind, object) => {
      if (!kindInfo[kind].statusSubresource) throw new ClusterError('BadRequest', `${kind} has no status`)
      requireVersion(object.metadata.resourceVersion)
      return write('PUT', objectPath(kind, object.metadata, 'status'), object)
    },

    delete: async (kind, key, deletion = {}) => {
      const body = { type: json, text: JSON.stringify(deleteOptions(deletion)) }
      try {
        await send({ method: 'DELETE', path: objectPath(kind, key), body })
      } catch (error) {
        if (!isClusterError(error, 'NotFound')) throw error
      }
    },

    logs: async (pod, { container, tailLines, sinceTime, previous }: LogOptions = {}) => {
      const limitBytes = limits.logBytes
      const query = queryText({ container, tailLines, sinceTime, previous, timestamps: true, limitBytes })
      const { text } = await send({ method: 'GET', path: `${objectPath('Pod', pod, 'log')}${query}` })
      return text.split('\n').filter(line => line !== '')
    },

    close: async () => transport.close(),
  }
}

/**
 * Without this check, a write would overwrite a built-in kind whatever its version: the API server requires a version
 * only for custom resources.
 */
function requireVersion(resourceVersion: string | undefined): void {
  if (resourceVersion === undefined || resourceVersion === '')
    throw new ClusterError('Invalid', 'metadata.resourceVersion: Invalid value: must be specified for an update')
}

function deleteOptions({ uid, resourceVersion, propagation = 'Background' }: DeleteOptions): object {
  return {
    apiVersion: 'v1',
    kind: 'DeleteOptions',
    propagationPolicy: propagation,
    ...(uid === undefined && resourceVersion === undefined ? {} : { preconditions: { uid, resourceVersion } }),
  }
}

function parse(answer: HttpAnswer): unknown {
  try {
    return JSON.parse(answer.text)
  } catch (error) {
    throw new ClusterError('Unavailable', "the API server's response is not JSON", { cause: error })
  }
}

/** The API server validates its objects against the schema that the type is derived from. */
const readObject = <T>(answer: HttpAnswer): T => parse(answer) as T

/** The items in lists of built-in kinds lack apiVersion and kind. */
function readList<K extends KindName>(kind: K, answer: HttpAnswer): ListResult<Kinds[K]> {
  const { items, metadata } = readObject<{
    items: Kinds[K][] | null
    metadata: { resourceVersion: string; continue?: string }
  }>(answer)
  const { apiVersion } = kindInfo[kind]
  return {
    items: (items ?? []).map(item => ({ ...item, apiVersion, kind })),
    resourceVersion: metadata.resourceVersion,
    ...(metadata.continue === undefined || metadata.continue === '' ? {} : { continueToken: metadata.continue }),
  }
}
