/** What a request of 2026-07-28 must say of itself, in its envelope and over HTTP in its headers as well. */
import type { Headers } from '../http/message.ts'
import { type Envelope, readEnvelope } from './envelope.ts'
import { ProtocolError } from './errors.ts'
import { checkRequired, checkSaid } from './headers.ts'
import type { RequestMessage } from './json-rpc.ts'
import { modernVersion } from './versions.ts'

/**
 * Returns the envelope. If several things are wrong, reports the first in this order.
 * @param headers undefined: stdio, which has none
 * @throws ProtocolError
 */
export function checkModernRequest(request: RequestMessage, headers: Headers | undefined): Envelope {
  const envelope = readEnvelope(request.params)
  const { version } = envelope
  if (headers !== undefined) checkSaid(headers, version, request.method)
  if (version !== modernVersion) throw new ProtocolError({ kind: 'unsupported version', requested: version })
  if (headers !== undefined) checkRequired(headers, request)
  return envelope
}
