/**
 * `/mcp` and `/`: accepts messages of all revisions, opens a session's stream, and ends a session. Only the caller that
 * created a session can use it.
 */

import { json, jsonError, wrongMethod } from '../http/json-answers.ts'
import type { HttpResponse, IncomingBody, RequestHead } from '../http/message.ts'
import { isContentType, readBody } from '../http/read-body.ts'
import { eraOf, isModernVersion } from '../mcp-protocol/era.ts'
import { faultError, invalidFault, ProtocolError, type ProtocolFault, toModernError } from '../mcp-protocol/errors.ts'
import { discardWithClient, EventStream, type StreamLimits } from '../mcp-protocol/event-stream.ts'
import { checkArgumentHeaders } from '../mcp-protocol/headers.ts'
import {
  errorResponse,
  errorText,
  invalidRequest,
  isObject,
  type Message,
  methodNotFound,
  parseMessages,
  type Received,
  type RequestId,
  type RequestMessage,
  type ResponseMessage,
  writeMessage,
} from '../mcp-protocol/json-rpc.ts'
import { messageTextOf } from '../mcp-protocol/message-text.ts'
import { checkModernRequest } from '../mcp-protocol/modern-request.ts'
import { isLegacyVersion, legacyVersions } from '../mcp-protocol/versions.ts'
import { empty, insufficientScope, streamAnswer, withHeaders } from './answers.ts'
import type { Backend } from './backend.ts'
import type { BridgeCallerAt } from './callers.ts'
import { BridgeRefusal } from './errors.ts'
import type { Replicas } from './replicas.ts'
import { type Session, type Sessions, unknownSession } from './session.ts'
import type { Watchers } from './watchers.ts'

const sessionHeader = 'mcp-session-id'
/** The maximum number of messages in one body. Only revision 2025-03-26 has batches. */
const mostInBatch = 100

type EndpointParts = {
  readonly backend: Backend
  readonly sessions: Sessions
  readonly watchers: Watchers
  readonly replicas: Replicas
  readonly streamLimits: StreamLimits
  readonly maximumBodyBytes: number
}

type IncomingCall = {
  /** The URL with which the client finds the authorization server. */
  readonly metadataUrl: string | undefined
  readonly head: RequestHead
  readonly body: IncomingBody
  readonly signal: AbortSignal
  readonly caller: BridgeCallerAt
}

type Answering = {
  readonly incoming: IncomingCall
  readonly session: Session | undefined
  readonly run: (onMessage: (message: Message) => void) => Promise<ResponseMessage>
  readonly statusOf: (response: ResponseMessage) => number
}

const accepts = (head: RequestHead, type: string) => {
  const list = (head.headers.accept ?? '')
    .toLowerCase()
    .split(',')
    .map(one => one.split(';')[0]?.trim())
  return list.includes(type)
}

export class Endpoint {
  readonly #parts: EndpointParts

  constructor(parts: EndpointParts) {
    this.#parts = parts
  }

  /** @throws BridgeRefusal, HttpError */
  async answer(incoming: IncomingCall): Promise<HttpResponse> {
    return (await this.#answerElsewhere(incoming)) ?? this.#answerHere(incoming)
  }

  /** Forwards the request to the replica that has the session. Returns undefined if this process has it. */
  async #answerElsewhere({ head, body, signal }: IncomingCall): Promise<HttpResponse | undefined> {
    const { replicas } = this.#parts
    const id = head.headers[sessionHeader]
    const owner = id === undefined ? undefined : replicas.ownerOfSession(id, head)
    if (owner === undefined) return undefined
    const answer = await replicas.forward(owner, {
      head,
      body: await readBody(body, this.#parts.maximumBodyBytes),
      signal,
    })
    if (answer === undefined) throw unknownSession()
    return answer
  }

  async #answerHere(incoming: IncomingCall): Promise<HttpResponse> {
    switch (incoming.head.method) {
      case 'POST':
        return this.#post(incoming)
      case 'GET':
        return this.#get(incoming)
      case 'DELETE':
        return this.#delete(incoming)
      default:
        return wrongMethod(['GET', 'POST', 'DELETE', 'OPTIONS'])
    }
  }

  async #post(incoming: IncomingCall): Promise<HttpResponse> {
    const { head, body } = incoming
    if (!isContentType(head.headers['content-type'], 'application/json'))
      throw new BridgeRefusal({ status: 415 }, 'Content-Type must be application/json')
    const version = head.headers['mcp-protocol-version']?.trim()
    const isModern = isModernVersion(version)
    const bytes = await readBody(body, this.#parts.maximumBodyBytes)
    const parsed = parseMessages(messageTextOf(bytes))
    if (parsed.kind === 'no JSON')
      return badRequest({ kind: 'parse error', problem: parsed.problem ?? 'the body is not valid JSON' }, isModern)
    if (parsed.kind === 'batch') return this.#batch(incoming, parsed.messages, isModern)
    const { message } = parsed
    if (message.kind === 'invalid') return badRequest(invalidFault(message), isModern, message.id)
    const era = eraOf(message, version)
    const id = message.kind === 'request' ? message.id : undefined
    if (era.kind === 'refused') return badRequest(era.error.fault, isModern, id)
    if (era.kind === 'legacy') return this.#legacy(incoming, message)
    if (message.kind === 'notification') return empty(202)
    if (message.kind === 'response')
      return badRequest(
        {
          kind: 'invalid request',
          problem: 'a response is not accepted: in this revision, the server sends no requests',
        },
        isModern,
      )
    try {
      checkModernRequest(message, head.headers)
      return (await this.#modernElsewhere(incoming, message, bytes)) ?? (await this.#modern(incoming, message))
    } catch (error) {
      if (error instanceof ProtocolError) return badRequest(error.fault, true, id)
      throw error
    }
  }

  /**
   * Forwards a request that names a task or call of another replica. Returns undefined if it names none, or if that
   * replica no longer runs.
   */
  async #modernElsewhere(
    incoming: IncomingCall,
    message: RequestMessage,
    body: Buffer,
  ): Promise<HttpResponse | undefined> {
    const { replicas } = this.#parts
    const { head, signal } = incoming
    const owner = replicas.ownerOf(message, head)
    return owner && replicas.forward(owner, { head, body, signal })
  }

  async #modern(incoming: IncomingCall, sent: RequestMessage): Promise<HttpResponse> {
    const { backend, replicas } = this.#parts
    const message = replicas.inward(sent)
    const { caller, signal, metadataUrl, head } = incoming
    if (message.method === 'initialize')
      return json(404, writeMessage(errorResponse(message.id, methodNotFound, 'Method not found')))
    const scope = await backend.requiredScope(message)
    if (!caller.scopes.has(scope)) return insufficientScope([scope], metadataUrl)
    const tool = await backend.toolOf(message)
    const { arguments: args } = message.params
    if (tool !== undefined) checkArgumentHeaders(head.headers, tool.inputSchema, isObject(args) ? args : {})
    const run = async (onMessage: (message: Message) => void) =>
      replicas.answer(
        message,
        await backend.modern(caller, message, notice => onMessage(replicas.notice(notice)), signal),
      )
    return this.#run({ incoming, session: undefined, run, statusOf: modernStatus })
  }

  async #legacy(incoming: IncomingCall, message: Message): Promise<HttpResponse> {
    const { backend, sessions } = this.#parts
    const { caller } = incoming
    if (message.kind === 'request' && message.method === 'initialize') return this.#initialize(incoming, message)
    const session = this.#sessionOf(incoming)
    if (message.kind === 'response') {
      if (session === undefined)
        throw new BridgeRefusal({ status: 400 }, 'a response requires the header Mcp-Session-Id')
      backend.reply(session, message)
      return empty(202)
    }
    if (message.kind === 'notification') {
      await backend.notify(session, caller, message)
      return empty(202)
    }
    const refused = await this.#refuseScope(incoming, message)
    if (refused !== undefined) return refused
    const run = (onMessage: (message: Message) => void) => backend.legacy(session, caller, message, onMessage)
    try {
      return await this.#run({ incoming, session, run, statusOf: () => 200 })
    } finally {
      if (session !== undefined && sessions.has(session)) session.touch()
    }
  }

  async #refuseScope(
    { caller, metadataUrl }: IncomingCall,
    message: RequestMessage,
  ): Promise<HttpResponse | undefined> {
    const scope = await this.#parts.backend.requiredScope(message)
    return caller.scopes.has(scope) ? undefined : insufficientScope([scope], metadataUrl)
  }

  async #initialize({ head, caller }: IncomingCall, message: RequestMessage): Promise<HttpResponse> {
    const { backend, sessions } = this.#parts
    if (head.headers[sessionHeader] !== undefined)
      throw new BridgeRefusal({ status: 400 }, 'initialize creates a session: send it without Mcp-Session-Id')
    const session = sessions.create(caller, message.params)
    const response = await backend.initialize(session, message).catch((error: unknown) => {
      sessions.close(session, 'initialize failed')
      throw error
    })
    if (response.outcome.error === undefined) return json(200, writeMessage(response), [['Mcp-Session-Id', session.id]])
    sessions.close(session, 'initialize failed')
    return json(200, writeMessage(response))
  }

  /** @throws BridgeRefusal if the caller has no session with the id in the header */
  #sessionOf({ head, caller }: IncomingCall): Session | undefined {
    const id = head.headers[sessionHeader]
    return id === undefined ? undefined : this.#parts.sessions.find(id, caller)
  }

  /** Answers with JSON, or with a stream if the client accepts one and a message precedes the response. */
  #run({ incoming, session, run, statusOf }: Answering): Promise<HttpResponse> {
    const { head, signal, metadataUrl } = incoming
    const { watchers, streamLimits } = this.#parts
    const takesStream = accepts(head, 'text/event-stream') && watchers.hasCapacity()
    return new Promise((resolve, reject) => {
      let stream: EventStream | undefined
      const begin = () => {
        const made = session?.openRequestStream() ?? new EventStream('0', streamLimits, false)
        if (session === undefined) discardWithClient(made, signal)
        resolve(
          watchers.counted(streamAnswer(made, { after: undefined, isPrimed: session?.isPrimed ?? false, signal })),
        )
        return made
      }
      const send = (message: Message) => {
        if (!takesStream) return
        stream ??= begin()
        stream.send(JSON.stringify(writeMessage(message)))
      }
      const isClosed = () => !takesStream || signal.aborted
      const finish = session?.begin({ send, isClosed }) ?? (() => {})
      const done = (response: ResponseMessage) => {
        finish()
        if (stream !== undefined) {
          stream.send(JSON.stringify(writeMessage(response)))
          stream.end()
          return
        }
        const scopes = missingScopes(response)
        if (scopes === undefined) resolve(json(statusOf(response), writeMessage(response)))
        else resolve(insufficientScope(scopes, metadataUrl))
      }
      run(send).then(done, (error: unknown) => {
        finish()
        stream?.end()
        reject(error)
      })
    })
  }

  async #batch(incoming: IncomingCall, received: readonly Received[], isModern: boolean): Promise<HttpResponse> {
    const refuse = (problem: string) => badRequest({ kind: 'invalid request', problem }, isModern)
    if (isModern) return refuse('a body must be one message')
    if (received.length === 0 || received.length > mostInBatch)
      return refuse(`a batch must have 1 to ${mostInBatch} messages`)
    const messages: Message[] = []
    const version = incoming.head.headers['mcp-protocol-version']?.trim()
    for (const message of received) {
      if (message.kind === 'invalid') return refuse(message.problem)
      if (message.kind !== 'response' && message.method === 'initialize')
        return refuse('initialize must not be part of a batch')
      const era = eraOf(message, version)
      if (era.kind === 'refused') return badRequest(era.error.fault, isModern)
      if (era.kind === 'modern') return refuse('a body of this version must be one message')
      messages.push(message)
    }
    // Checks the whole batch before any message runs. Otherwise, a client that repeats the batch would run its messages
    // twice.
    const session = this.#sessionOf(incoming)
    if (session === undefined && messages.some(({ kind }) => kind === 'response'))
      throw new BridgeRefusal({ status: 400 }, 'a response requires the header Mcp-Session-Id')
    for (const message of messages) {
      const refused = message.kind === 'request' ? await this.#refuseScope(incoming, message) : undefined
      if (refused !== undefined) return refused
    }
    // All messages have one response. Notifications before the responses go to the session's own stream.
    const head = { ...incoming.head, headers: { ...incoming.head.headers, accept: 'application/json' } }
    const bodies = await Promise.all(messages.map(message => this.#answerInBatch({ ...incoming, head }, message)))
    const answers = bodies.filter(body => body !== undefined)
    if (answers.length === 0) return empty(202)
    return { status: 200, headers: [['Content-Type', 'application/json']], body: `[${answers.join(',')}]` }
  }

  /**
   * If the bridge refuses one message, only the answer to this message is an error. The other messages have run, and
   * have their answers.
   */
  async #answerInBatch(incoming: IncomingCall, message: Message): Promise<string | undefined> {
    const refused = (problem: string) =>
      message.kind === 'request'
        ? JSON.stringify(writeMessage(errorResponse(message.id, invalidRequest, 'Refused', problem)))
        : undefined
    try {
      const { status, body } = await this.#legacy(incoming, message)
      if (status < 400 || body === undefined) return body?.toString()
      const parsed: unknown = JSON.parse(body.toString())
      return refused(isObject(parsed) && typeof parsed.error === 'string' ? parsed.error : `status ${status}`)
    } catch (error) {
      if (error instanceof BridgeRefusal) return refused(error.message)
      throw error
    }
  }

  #get(incoming: IncomingCall): HttpResponse {
    const { head, signal, caller } = incoming
    const { watchers } = this.#parts
    if (!accepts(head, 'text/event-stream'))
      throw new BridgeRefusal({ status: 406 }, 'Accept must include text/event-stream')
    const session = this.#sessionOf(incoming)
    if (!watchers.hasCapacity()) throw new BridgeRefusal({ status: 503 }, 'the maximum number of streams is open')
    if (session === undefined) return watchers.counted(watchers.watch(caller, signal))
    checkVersion(head)
    const lastEvent = head.headers['last-event-id']
    const { isPrimed } = session
    if (lastEvent === undefined) {
      const opening = { after: session.general.seen, isPrimed, signal }
      return withSession(watchers.counted(streamAnswer(session.general, opening)), session)
    }
    const position = session.streamOf(lastEvent)
    if (position === undefined)
      throw new BridgeRefusal({ status: 400 }, 'Last-Event-ID is not an event of this session')
    const answer = streamAnswer(position.stream, { after: position.after, isPrimed: false, signal })
    return withSession(watchers.counted(answer), session)
  }

  #delete({ head, caller }: IncomingCall): HttpResponse {
    const id = head.headers[sessionHeader]
    if (id === undefined) throw new BridgeRefusal({ status: 400 }, 'the header Mcp-Session-Id is missing')
    const { sessions } = this.#parts
    sessions.close(sessions.find(id, caller), 'the session has been ended')
    return empty(204)
  }
}

const withSession = (answer: HttpResponse, session: Session) => withHeaders(answer, [['Mcp-Session-Id', session.id]])

/** The missing scopes that the server's error names. */
function missingScopes({ outcome: { error } }: ResponseMessage): readonly string[] | undefined {
  const data = isObject(error?.data) ? error.data : undefined
  if (!Array.isArray(data?.scopes)) return undefined
  const scopes = data.scopes.filter(scope => typeof scope === 'string' && /^mcp:[a-z]{1,20}$/.test(scope))
  return scopes.length === 0 ? undefined : scopes.map(String)
}

/** HTTP statuses of revision 2026-07-28. */
function modernStatus({ outcome: { error } }: ResponseMessage): number {
  const code = error?.code
  if (code === methodNotFound) return 404
  return code === invalidRequest || code === -32_020 || code === -32_021 || code === -32_022 ? 400 : 200
}

/** @throws BridgeRefusal */
function checkVersion({ headers }: RequestHead): void {
  const version = headers['mcp-protocol-version']?.trim()
  if (version === undefined || isLegacyVersion(version)) return
  throw new BridgeRefusal({ status: 400 }, `MCP-Protocol-Version must be one of ${legacyVersions.join(', ')}`)
}

/**
 * Older clients receive `{error}`; clients of the newest revision receive JSON-RPC. `id`: undefined if it could not be
 * read.
 */
function badRequest(fault: ProtocolFault, isModern: boolean, id?: RequestId): HttpResponse {
  const wireError = faultError(fault)
  if (!isModern) return jsonError(400, `${wireError.message} (${wireError.code}): ${wireError.problem}`)
  return { ...json(400, {}), body: errorText(id, toModernError(wireError)) }
}
