/** What each request of the newest revision says of itself in `_meta`: its revision, what its client can do, and what it wants to be told. */

import { ProtocolError } from './errors.ts'
import type { JsonObject } from './json.ts'
import { isObject, metaOf } from './json-rpc.ts'
import { isLogLevel, type LogLevel } from './log-level.ts'
import { capabilitiesKey, clientInfoKey, logLevelKey, tasksExtension, versionKey } from './names.ts'

export type Envelope = {
  readonly version: string
  /** What the client declares that it can do. */
  readonly capabilities: JsonObject
  /** Whether the client knows tasks. */
  readonly takesTasks: boolean
  readonly logLevel: LogLevel | undefined
}

/** Whether a request says that it is of the newest revision, however well. */
export const hasClaim = (params: JsonObject): boolean => metaOf(params)[versionKey] !== undefined

/** @throws ProtocolError that names the key and what it must be */
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
