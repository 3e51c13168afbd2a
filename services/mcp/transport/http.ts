/**
 * POST /mcp/v1 for all revisions. Unauthenticated callers can only call open tools. The server refuses requests from
 * pages of other sites. The server answers each request in the format of the request's revision.
 */

import { bearerChallenge } from '../../authentication/challenge.ts'
import { HttpError } from '../../http/errors.ts'
import { json, jsonError, wrongMethod } from '../../http/json-answers.ts'
import type { Handler, HttpResponse, IncomingBody, RequestHead } from '../../http/message.ts'
import type { Peers } from '../../http/peers/index.ts'
import { isContentType, readBody } from '../../http/read-body.ts'
import { eraOf, isModernVersion } from '../../mcp-protocol/era.ts'
import { invalidFault, ProtocolError } from '../../mcp-protocol/errors.ts'
import {
  errorText,
  messageText,
  type Parsed,
  parseMessages,
  type Received,
  type RequestId,
  type RequestMessage,
} from '../../mcp-protocol/json-rpc.ts'
import { messageTextOf } from '../../mcp-protocol/message-text.ts'
import { refusedHeader, type SiteRules } from '../../mcp-protocol/origin.ts'
import { ownerOf } from '../../mcp-protocol/peer-handles.ts'
import { isLegacyVersion } from '../../mcp-protocol/versions.ts'
import { anyone, type Caller } from '../core/caller.ts'
import { CoreError } from '../core/errors.ts'
import type { Core } from '../core/index.ts'
import type { Authentication } from '../credentials/types.ts'
import { answerOrStream } from './answer-or-stream.ts'
import type { Calls } from './calls.ts'
import type { Requester, TransportLogger } from './context.ts'
import { legacyError, modernError } from './errors.ts'
import { LegacySession } from './legacy/session.ts'
import type { Lists } from './lists.ts'
import type { Modern } from './modern/index.ts'

type EndpointParts = {
  readonly core: Core
  readonly calls: Calls
  readonly lists: Lists
  readonly logger: TransportLogger
  readonly modern: Modern
  /** Undefined if there is only one process. */
  readonly peers: Peers | undefined
  readonly maximumBodyBytes: number
  /** Undefined if authentication is off. In that case, every caller has all rights. */
  readonly authentication: Authentication | undefined
  readonly sites: SiteRules
  /** The URL of the OAuth metadata (RFC 9728), if configured. */
  readonly resourceMetadata: string | undefined
}

/** The maximum body size of a request without a valid token. This size is enough for a login. */
const maximumUnknownBytes = 65_536
const maximumBatch = 100

/** The caller without a valid token. This caller can only call open tools. */
const unauthenticated: Caller = {
  kind: 'anyone',
  principal: 'unauthenticated',
  username: undefined,
  databases: [],
  scopes: new Set(),
  session: 'unauthenticated',
}

/** `text` is already JSON. */
const jsonText = (status: number, text: string): HttpResponse => ({ ...json(status, undefined), body: text })
const accepted: HttpResponse = { status: 202, headers: [], body: undefined }

const isUnauthenticatedTooLarge = (error: unknown): boolean =>
  error instanceof HttpError &&
  error.fault.kind === 'body too large' &&
  error.fault.maximumBytes === maximumUnknownBytes

type Read = { readonly parsed: Parsed; readonly bytes: Buffer }

async function readMessages(body: IncomingBody, maximumBytes: number): Promise<Read> {
  const bytes = await readBody(body, maximumBytes)
  return { parsed: parseMessages(messageTextOf(bytes)), bytes }
}

const nothingRead: Read = { parsed: parseMessages(undefined), bytes: Buffer.alloc(0) }

const takesStreams = (accept: string | undefined): boolean =>
  accept === undefined || /text\/event-stream|\*\/\*|text\/\*/i.test(accept)

/** One message with its caller. */
type Exchange = {
  readonly head: RequestHead
  readonly version: string | undefined
  readonly caller: Caller
  readonly signal: AbortSignal
}

/** The error response to a message, in the format of the message's revision. */
function refusal(error: ProtocolError | CoreError, id: RequestId | undefined, isModern: boolean): HttpResponse {
  if (!isModern) return jsonText(200, errorText(id ?? null, legacyError(error, '')))
  const { error: rpcError, status } = modernError(error, '')
  return jsonText(status === 200 ? 400 : status, errorText(id, rpcError))
}

function requesterOf({ head, caller, signal }: Exchange, send: (message: string) => void): Requester {
  const canStream = takesStreams(head.headers.accept)
  return {
    caller,
    address: head.address,
    signal,
    notify: canStream ? message => send(messageText(message)) : undefined,
  }
}

export function createEndpoint(parts: EndpointParts): Handler {
  const endpoint = new Endpoint(parts)
  return (head, body, signal) => endpoint.handle(head, body, signal)
}

class Endpoint {
  readonly #parts: EndpointParts

  constructor(parts: EndpointParts) {
    this.#parts = parts
  }

  async handle(head: RequestHead, body: IncomingBody, signal: AbortSignal): Promise<HttpResponse> {
    const { sites, resourceMetadata } = this.#parts
    const { method, headers } = head
    if (refusedHeader(headers, sites) !== undefined) return jsonError(403, 'this Host or Origin is not allowed')
    if (method !== 'POST') return wrongMethod(['POST'])
    if (!isContentType(headers['content-type'], 'application/json'))
      return jsonError(415, 'the body must be application/json')
    const who = await this.#admitted(head, body)
    if ('status' in who) return who
    const version = headers['mcp-protocol-version']?.trim()
    const forwarded = await this.#forward(who, head, signal)
    if (forwarded !== undefined) return forwarded
    try {
      return await this.#answer(who.parsed, { head, version, caller: who.caller, signal })
    } catch (error) {
      if (!(error instanceof CoreError && error.fault.kind === 'insufficient scope')) throw error
      const scope = error.fault.scopes.join(' ')
      return jsonError(403, `the token lacks the scope ${scope}`, [
        bearerChallenge({ error: 'insufficient_scope', scope, resource_metadata: resourceMetadata }),
      ])
    }
  }

  /**
   * If another replica has the request's task or call state, forwards the request to that replica. Returns undefined if
   * this replica must answer the request.
   */
  async #forward({ parsed, bytes }: Read, head: RequestHead, signal: AbortSignal): Promise<HttpResponse | undefined> {
    const { peers } = this.#parts
    if (peers === undefined || peers.isForwarded(head)) return undefined
    if (parsed.kind !== 'one' || parsed.message.kind !== 'request') return undefined
    const owner = ownerOf(parsed.message, peers)
    return owner && peers.forward(owner, { head, body: bytes, signal })
  }

  /** Whether the message calls an open tool, which needs no token. */
  #openCall(parsed: Parsed): boolean {
    if (parsed.kind !== 'one' || parsed.message.kind !== 'request') return false
    const { method, params } = parsed.message
    if (method !== 'tools/call' || typeof params.name !== 'string') return false
    return this.#parts.core.tool(params.name, unauthenticated)?.isOpen === true
  }

  /** Returns the caller and the message, or an error response for an unauthenticated request. */
  async #admitted(
    { headers, address }: RequestHead,
    body: IncomingBody,
  ): Promise<({ readonly caller: Caller } & Read) | HttpResponse> {
    const { authentication, resourceMetadata, maximumBodyBytes } = this.#parts
    if (authentication === undefined) return { caller: anyone, ...(await readMessages(body, maximumBodyBytes)) }
    const { authorization } = headers
    const found = authorization === undefined ? undefined : await authentication.authenticate(authorization, address)
    if (found?.kind === 'caller') return { caller: found.caller, ...(await readMessages(body, maximumBodyBytes)) }
    const read = await readMessages(body, Math.min(maximumUnknownBytes, maximumBodyBytes)).catch((error: unknown) => {
      if (isUnauthenticatedTooLarge(error)) return undefined
      throw error
    })
    if (read !== undefined && this.#openCall(read.parsed)) return { caller: unauthenticated, ...read }
    const refused = found ?? (await authentication.authenticate(undefined, address))
    if (refused.kind === 'caller') return { caller: refused.caller, ...(read ?? nothingRead) }
    if (refused.kind === 'limited')
      return jsonError(429, 'too many failed attempts', [['Retry-After', String(refused.retryAfterSeconds)]])
    const error = refused.isMissing ? undefined : 'invalid_token'
    return jsonError(401, 'unauthorized', [
      bearerChallenge({ scope: 'mcp:read', error, resource_metadata: resourceMetadata }),
    ])
  }

  #singleSession({ version }: Exchange): LegacySession {
    return new LegacySession({
      ...this.#parts,
      send: undefined,
      version: isLegacyVersion(version) ? version : undefined,
    })
  }

  #answerModern(request: RequestMessage, exchange: Exchange): Promise<HttpResponse> {
    return answerOrStream(async send => {
      const requester = { ...requesterOf(exchange, send), headers: exchange.head.headers }
      const { status, text } = await this.#parts.modern.answer(request, requester)
      return { response: jsonText(status, text), text }
    }, exchange.signal)
  }

  #answerLegacy(message: Received, exchange: Exchange): Promise<HttpResponse> {
    return answerOrStream(async send => {
      const session = this.#singleSession(exchange)
      const text = await session.receive(message, requesterOf(exchange, send))
      return { response: text === undefined ? accepted : jsonText(200, text), text }
    }, exchange.signal)
  }

  async #answerBatch(messages: readonly Received[], exchange: Exchange): Promise<HttpResponse> {
    const refuse = (problem: string) => {
      const error = new ProtocolError({ kind: 'invalid request', problem })
      return jsonText(400, errorText(undefined, modernError(error, '').error))
    }
    const isModern = messages.some(message => eraOf(message, exchange.version).kind !== 'legacy')
    if (isModern) return refuse('the requested revision does not support batches')
    if (messages.length === 0 || messages.length > maximumBatch)
      return refuse(`a batch must have 1 to ${maximumBatch} messages`)
    if (messages.some(message => message.kind === 'request' && message.method === 'initialize'))
      return refuse('initialize must not be in a batch')
    const session = this.#singleSession(exchange)
    const requester = { ...requesterOf(exchange, () => {}), notify: undefined }
    const texts = await Promise.all(messages.map(message => session.receive(message, requester)))
    const answers = texts.filter(text => text !== undefined)
    return answers.length === 0 ? accepted : jsonText(200, `[${answers.join(',')}]`)
  }

  async #answer(parsed: Parsed, exchange: Exchange): Promise<HttpResponse> {
    const { version } = exchange
    if (parsed.kind === 'no JSON')
      return refusal(
        new ProtocolError({ kind: 'parse error', problem: parsed.problem }),
        undefined,
        isModernVersion(version),
      )
    if (parsed.kind === 'batch') return this.#answerBatch(parsed.messages, exchange)
    const { message } = parsed
    const era = eraOf(message, version)
    const id = message.kind === 'request' ? message.id : undefined
    if (era.kind === 'refused') {
      const { error } = modernError(era.error, '')
      return jsonText(400, errorText(id, error))
    }
    if (era.kind === 'legacy') return this.#answerLegacy(message, exchange)
    switch (message.kind) {
      case 'request':
        return this.#answerModern(message, exchange)
      case 'notification':
        return accepted
      case 'response': {
        const error = new ProtocolError({
          kind: 'invalid request',
          problem: 'a response is not accepted: in this revision, the server sends no requests',
        })
        return refusal(error, undefined, true)
      }
      case 'invalid':
        return refusal(new ProtocolError(invalidFault(message)), message.id, true)
    }
  }
}
