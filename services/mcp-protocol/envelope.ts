/**
 * The `_meta` of a request of the newest revision: the revision, the client's capabilities, and the requested log
 * level.
 */

import { ProtocolError } from './errors.ts'
import type { JsonObject } from './json.ts'
import { isObject, metaOf } from './json-rpc.ts'
import { isLogLevel, type LogLevel } from './log-level.ts'
import { capabilitiesKey, clientInfoKey, logLevelKey, tasksExtension, versionKey } from './names.ts'

export type Envelope = {
  readonly version: string
  /** The capabilities that the client declared. */
  readonly capabilities: JsonObject
  /** Whether the client supports the tasks extension. */
  readonly takesTasks: boolean
  readonly logLevel: LogLevel | undefined
}

/** Whether a request declares a revision in `_meta`, even if the revision is invalid. */
export const declaresVersion = (params: JsonObject): boolean => metaOf(params)[versionKey] !== undefined

/** @throws ProtocolError that names the wrong key and the required type */
export function readEnvelope(params: JsonObject): Envelope {
  const meta = metaOf(params)
  const missing = [versionKey, capabilitiesKey].filter(key => meta[key] === undefined)
  const refuse = (problem: string) => new ProtocolError({ kind: 'invalid envelope', problem })
  if (missing.length > 0) throw refuse(`_meta must have ${missing.join(' and ')}`)
  const version = meta[versionKey]
  const capabilities = meta[capabilitiesKey]
  const logLevel = meta[logLevelKey]
  if (typeof version !== 'string') throw refuse(`${versionKey} must be a string`)
  if (!isObject(capabilities)) throw refuse(`${capabilitiesKey} must be an object`)
  if (meta[clientInfoKey] !== undefined && !isObject(meta[clientInfoKey]))
    throw refuse(`${clientInfoKey} must be an object`)
  if (logLevel !== undefined && !isLogLevel(logLevel)) throw refuse(`${logLevelKey} must be a level of RFC 5424`)
  const { extensions } = capabilities
  return {
    version,
    capabilities,
    takesTasks: isObject(extensions) && isObject(extensions[tasksExtension]),
    logLevel,
  }
}
