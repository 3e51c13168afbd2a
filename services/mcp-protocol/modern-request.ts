/** Checks a request of 2026-07-28: its envelope and, over HTTP, its headers. */
import type { Headers } from '../http/message.ts'
import { type Envelope, readEnvelope } from './envelope.ts'
import { ProtocolError } from './errors.ts'
import { checkPresentHeaders, checkRequiredHeaders } from './headers.ts'
import type { RequestMessage } from './json-rpc.ts'
import { modernVersion } from './versions.ts'

/**
 * Returns the envelope. Reports the first problem in the order of these checks.
 * @param headers undefined over stdio, which has no headers
 * @throws ProtocolError
 */
export function checkModernRequest(request: RequestMessage, headers: Headers | undefined): Envelope {
  const envelope = readEnvelope(request.params)
  const { version } = envelope
  if (headers !== undefined) checkPresentHeaders(headers, version, request.method)
  if (version !== modernVersion) throw new ProtocolError({ kind: 'unsupported version', requested: version })
  if (headers !== undefined) checkRequiredHeaders(headers, request)
  return envelope
}
