/**
 * `/mcp` and `/`: posted messages of both eras, the stream of a session, and its end. It promises an answer to every request as the table of the contract has it, and that what is a session's is
 * seen only by whose session it is.
 */

import { json, jsonError, wrongMethod } from '../http/json-answers.ts'
import type { HttpResponse, IncomingBody, RequestHead } from '../http/message.ts'
import { isContentType, readBody } from '../http/read-body.ts'
import { eraOf, isModernVersion } from '../mcp-protocol/era.ts'
import { inModernWords, invalidFault, ProtocolError, type ProtocolFault, sayFault } from '../mcp-protocol/errors.ts'
import { discardWithClient, EventStream, type StreamLimits } from '../mcp-protocol/event-stream.ts'
import { checkArguments } from '../mcp-protocol/headers.ts'
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
/** Of one body; only revision 2025-03-26 has bodies of several. */
const mostInBatch = 100

type EndpointParts = {
  readonly backend: Backend
  readonly sessions: Sessions
  readonly watchers: Watchers
  readonly replicas: Replicas
  readonly streamLimits: StreamLimits
  readonly maximumBodyBytes: number
}

type Asked = {
  /** Where the client learns whom to ask for a token. */
  readonly metadataUrl: string | undefined
  readonly head: RequestHead
  readonly body: IncomingBody
  readonly signal: AbortSignal
  readonly caller: BridgeCallerAt
}

type Answering = {
  readonly asked: Asked
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
  async answer(asked: Asked): Promise<HttpResponse> {
    return (await this.#answerElsewhere(asked)) ?? this.#answerHere(asked)
  }

  /** The whole of a session is in one process. @returns undefined if it is this one */
  async #answerElsewhere({ head, body, signal }: Asked): Promise<HttpResponse | undefined> {
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

  async #answerHere(asked: Asked): Promise<HttpResponse> {
    switch (asked.head.method) {
      case 'POST':
        return this.#post(asked)
      case 'GET':
        return this.#get(asked)
      case 'DELETE':
        return this.#delete(asked)
      default:
        return wrongMethod(['GET', 'POST', 'DELETE', 'OPTIONS'])
    }
  }

  async #post(asked: Asked): Promise<HttpResponse> {
    const { head, body } = asked
    if (!isContentType(head.headers['content-type'], 'application/json'))
      throw new BridgeRefusal({ status: 415 }, 'Content-Type must be application/json')
    const version = head.headers['mcp-protocol-version']?.trim()
    const isModern = isModernVersion(version)
    const bytes = await readBody(body, this.#parts.maximumBodyBytes)
    const parsed = parseMessages(messageTextOf(bytes))
    if (parsed.kind === 'no JSON')
      return badRequest({ kind: 'parse error', problem: parsed.problem ?? 'the body is not valid JSON' }, isModern)
    if (parsed.kind === 'batch') return this.#batch(asked, parsed.messages, isModern)
    const { message } = parsed
    if (message.kind === 'invalid') return badRequest(invalidFault(message), isModern, message.id)
    const era = eraOf(message, version)
    const id = message.kind === 'request' ? message.id : undefined
    if (era.kind === 'refused') return badRequest(era.error.fault, isModern, id)
    if (era.kind === 'legacy') return this.#legacy(asked, message)
    if (message.kind === 'notification') return empty(202)
    if (message.kind === 'response')
      return badRequest({ kind: 'invalid request', problem: 'there are no requests to a client' }, isModern)
    try {
      checkModernRequest(message, head.headers)
      return (await this.#modernElsewhere(asked, message, bytes)) ?? (await this.#modern(asked, message))
    } catch (error) {
      if (error instanceof ProtocolError) return badRequest(error.fault, true, id)
      throw error
    }
  }

  /** @returns undefined if nothing that it names is in the memory of another replica that is there */
  async #modernElsewhere(asked: Asked, message: RequestMessage, body: Buffer): Promise<HttpResponse | undefined> {
    const { replicas } = this.#parts
    const { head, signal } = asked
    const owner = replicas.ownerOf(message, head)
    return owner && replicas.forward(owner, { head, body, signal })
  }

  async #modern(asked: Asked, said: RequestMessage): Promise<HttpResponse> {
    const { backend, replicas } = this.#parts
    const message = replicas.inward(said)
    const { caller, signal, metadataUrl, head } = asked
    if (message.method === 'initialize')
      return json(404, writeMessage(errorResponse(message.id, methodNotFound, 'Method not found')))
    const scope = await backend.requiredScope(message)
    if (!caller.scopes.has(scope)) return insufficientScope([scope], metadataUrl)
    const tool = await backend.toolOf(message)
    const { arguments: args } = message.params
    if (tool !== undefined) checkArguments(head.headers, tool.inputSchema, isObject(args) ? args : {})
    const run = async (onMessage: (message: Message) => void) =>
      replicas.answer(
        message,
        await backend.modern(caller, message, notice => onMessage(replicas.notice(notice)), signal),
      )
    return this.#run({ asked, session: undefined, run, statusOf: modernStatus })
  }

  async #legacy(asked: Asked, message: Message): Promise<HttpResponse> {
    const { backend, sessions } = this.#parts
    const { caller } = asked
    if (message.kind === 'request' && message.method === 'initialize') return this.#initialize(asked, message)
    const session = this.#sessionOf(asked)
    if (message.kind === 'response') {
      if (session === undefined) throw new BridgeRefusal({ status: 400 }, 'a response needs the header Mcp-Session-Id')
      backend.reply(session, message)
      return empty(202)
    }
    if (message.kind === 'notification') {
      await backend.notify(session, caller, message)
      return empty(202)
    }
    const refused = await this.#refuseScope(asked, message)
    if (refused !== undefined) return refused
    const run = (onMessage: (message: Message) => void) => backend.legacy(session, caller, message, onMessage)
    try {
      return await this.#run({ asked, session, run, statusOf: () => 200 })
    } finally {
      if (session !== undefined && sessions.has(session)) session.touch()
    }
  }

  async #refuseScope({ caller, metadataUrl }: Asked, message: RequestMessage): Promise<HttpResponse | undefined> {
    const scope = await this.#parts.backend.requiredScope(message)
    return caller.scopes.has(scope) ? undefined : insufficientScope([scope], metadataUrl)
  }

  async #initialize({ head, caller }: Asked, message: RequestMessage): Promise<HttpResponse> {
    const { backend, sessions } = this.#parts
    if (head.headers[sessionHeader] !== undefined)
      throw new BridgeRefusal({ status: 400 }, 'initialize makes a session: send it without Mcp-Session-Id')
    const session = sessions.create(caller, message.params)
    const response = await backend.initialize(session, message).catch((error: unknown) => {
      sessions.close(session, 'initialize failed')
      throw error
    })
    if (response.outcome.error === undefined) return json(200, writeMessage(response), [['Mcp-Session-Id', session.id]])
    sessions.close(session, 'initialize failed')
    return json(200, writeMessage(response))
  }

  /** @throws BridgeRefusal where the session that the header names is none of the caller's */
  #sessionOf({ head, caller }: Asked): Session | undefined {
    const id = head.headers[sessionHeader]
    return id === undefined ? undefined : this.#parts.sessions.find(id, caller)
  }

  /** JSON, or a stream where the client takes one and something comes before the answer. */
  #run({ asked, session, run, statusOf }: Answering): Promise<HttpResponse> {
    const { head, signal, metadataUrl } = asked
    const { watchers, streamLimits } = this.#parts
    const takesStream = accepts(head, 'text/event-stream') && watchers.hasRoom()
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
      const isGone = () => !takesStream || signal.aborted
      const finish = session?.begin({ send, isGone }) ?? (() => {})
      const done = (response: ResponseMessage) => {
        finish()
        if (stream !== undefined) {
          stream.send(JSON.stringify(writeMessage(response)))
          stream.end()
          return
        }
        const scopes = scopesAskedFor(response)
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

  async #batch(asked: Asked, received: readonly Received[], isModern: boolean): Promise<HttpResponse> {
    const refuse = (problem: string) => badRequest({ kind: 'invalid request', problem }, isModern)
    if (isModern) return refuse('a body is one message')
    if (received.length === 0 || received.length > mostInBatch)
      return refuse(`a batch has 1 to ${mostInBatch} messages`)
    const messages: Message[] = []
    const version = asked.head.headers['mcp-protocol-version']?.trim()
    for (const message of received) {
      if (message.kind === 'invalid') return refuse(message.problem)
      if (message.kind !== 'response' && message.method === 'initialize') return refuse('initialize comes alone')
      const era = eraOf(message, version)
      if (era.kind === 'refused') return badRequest(era.error.fault, isModern)
      if (era.kind === 'modern') return refuse('a body of this version is one message')
      messages.push(message)
    }
    // What is wrong with the whole is found before anything of it runs: a client that repeats it would have it run twice.
    const session = this.#sessionOf(asked)
    if (session === undefined && messages.some(({ kind }) => kind === 'response'))
      throw new BridgeRefusal({ status: 400 }, 'a response needs the header Mcp-Session-Id')
    for (const message of messages) {
      const refused = message.kind === 'request' ? await this.#refuseScope(asked, message) : undefined
      if (refused !== undefined) return refused
    }
    // One answer for all: what precedes the answers goes to the session's own stream.
    const head = { ...asked.head, headers: { ...asked.head.headers, accept: 'application/json' } }
    const bodies = await Promise.all(messages.map(message => this.#answerInBatch({ ...asked, head }, message)))
    const answers = bodies.filter(body => body !== undefined)
    if (answers.length === 0) return empty(202)
    return { status: 200, headers: [['Content-Type', 'application/json']], body: `[${answers.join(',')}]` }
  }

  /** What is refused of one message is its own answer: the others have run, and have theirs. */
  async #answerInBatch(asked: Asked, message: Message): Promise<string | undefined> {
    const refused = (problem: string) =>
      message.kind === 'request'
        ? JSON.stringify(writeMessage(errorResponse(message.id, invalidRequest, 'Refused', problem)))
        : undefined
    try {
      const { status, body } = await this.#legacy(asked, message)
      if (status < 400 || body === undefined) return body?.toString()
      const said: unknown = JSON.parse(body.toString())
      return refused(isObject(said) && typeof said.error === 'string' ? said.error : `status ${status}`)
    } catch (error) {
      if (error instanceof BridgeRefusal) return refused(error.message)
      throw error
    }
  }

  #get(asked: Asked): HttpResponse {
    const { head, signal, caller } = asked
    const { watchers } = this.#parts
    if (!accepts(head, 'text/event-stream'))
      throw new BridgeRefusal({ status: 406 }, 'Accept must have text/event-stream')
    const session = this.#sessionOf(asked)
    if (!watchers.hasRoom()) throw new BridgeRefusal({ status: 503 }, 'there are as many streams as there may be')
    if (session === undefined) return watchers.counted(watchers.watch(caller, signal))
    checkVersion(head)
    const lastEvent = head.headers['last-event-id']
    const { isPrimed } = session
    if (lastEvent === undefined) {
      const opening = { after: session.general.seen, isPrimed, signal }
      return withSession(watchers.counted(streamAnswer(session.general, opening)), session)
    }
    const place = session.streamOf(lastEvent)
    if (place === undefined) throw new BridgeRefusal({ status: 400 }, 'Last-Event-ID names no event of this session')
    const answer = streamAnswer(place.stream, { after: place.after, isPrimed: false, signal })
    return withSession(watchers.counted(answer), session)
  }

  #delete({ head, caller }: Asked): HttpResponse {
    const id = head.headers[sessionHeader]
    if (id === undefined) throw new BridgeRefusal({ status: 400 }, 'the header Mcp-Session-Id is missing')
    const { sessions } = this.#parts
    sessions.close(sessions.find(id, caller), 'the session has been ended')
    return empty(204)
  }
}

const withSession = (answer: HttpResponse, session: Session) => withHeaders(answer, [['Mcp-Session-Id', session.id]])

/** A server that knows which scope a call takes says so in its error. */
function scopesAskedFor({ outcome: { error } }: ResponseMessage): readonly string[] | undefined {
  const data = isObject(error?.data) ? error.data : undefined
  if (!Array.isArray(data?.scopes)) return undefined
  const scopes = data.scopes.filter(scope => typeof scope === 'string' && /^mcp:[a-z]{1,20}$/.test(scope))
  return scopes.length === 0 ? undefined : scopes.map(String)
}

/** As revision 2026-07-28 has them. */
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

/** Older clients get `{error}`, those that name a newer revision JSON-RPC. `id`: undefined if it could not be read. */
function badRequest(fault: ProtocolFault, isModern: boolean, id?: RequestId): HttpResponse {
  const said = sayFault(fault)
  if (!isModern) return jsonError(400, `${said.message} (${said.code}): ${said.problem}`)
  return { ...json(400, {}), body: errorText(id, inModernWords(said)) }
}
