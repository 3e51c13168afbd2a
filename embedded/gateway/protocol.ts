/** Messages between the main thread and the gateway's thread. Messages in one direction keep their order. */
import type { ClusterErrorReason } from '../../cluster/errors.ts'
import type { ConfigMap } from '../../cluster/kinds.ts'
import type { Draft, ListOptions, ListResult, ObjectKey, Selection, WatchEvent } from '../../cluster/port.ts'
import type { HttpsOptions } from '../../gateway/in-process.ts'
import type { Certificate } from '../../server/certificate.ts'
import type { Endpoints } from '../runtime/index.ts'

/** Start parameters of the thread. */
export type ThreadSettings = {
  identity: string
  listenHost: string
  certificate: Certificate
  https?: HttpsOptions | undefined
  /** The log level. */
  level: string
  /** Node's compile cache; undefined if there is none. */
  compileCache: string | undefined
}

/** An error of the cluster; `reason` is missing if it is not a ClusterError. */
export type Failure = { reason?: ClusterErrorReason; message: string }

/** The calls of `GatewayCluster` that have one answer. */
export type ClusterCall =
  | { method: 'list'; options: ListOptions | undefined }
  | { method: 'apply'; lease: Draft<'Lease'> }
  | { method: 'delete'; key: ObjectKey }

export type WatchRequest = Omit<Selection, 'open'> & { resourceVersion: string }

/** Requests to the cluster. The sender chooses the id. */
export type ClusterRequest =
  | { type: 'call'; id: number; call: ClusterCall }
  | { type: 'watch'; id: number; options: WatchRequest }
  | { type: 'unwatch'; id: number }

export type ClusterAnswer =
  | { type: 'answer'; id: number; list?: ListResult<ConfigMap> }
  | { type: 'failure'; id: number; failure: Failure }
  | { type: 'event'; id: number; event: WatchEvent<ConfigMap> }
  /** The server ended a watch. */
  | { type: 'end'; id: number }

export type FromThread =
  | ClusterRequest
  | { type: 'started' }
  | { type: 'log'; level: string; message: string; fields: Record<string, unknown> }
  | { type: 'metrics'; id: number; text: string }
  | { type: 'stopped' }

export type ToThread =
  | ClusterAnswer
  | { type: 'endpoints'; changes: Endpoints[] }
  | { type: 'certificate'; certificate: Certificate }
  | { type: 'https-certificates'; certificates: readonly Certificate[] }
  | { type: 'metrics'; id: number }
  | { type: 'stop'; drainMs: number }
