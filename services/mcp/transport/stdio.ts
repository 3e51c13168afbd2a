/**
 * MCP over standard input and output, with one message per line and nothing else on the output. The server trusts its
 * client, which is the process that started the server. If the client is the bridge, each request and notification
 * names one of the bridge's clients in `_meta`: the connection in `espalier.dev/connection`, and the caller in
 * `espalier.dev/caller` (docs/decisions/0047-bridge.md).
 */
import { once } from 'node:events'
import type { Readable, Writable } from 'node:stream'
import { z } from 'zod'
import { bridgeCapability, callerField, closedMethod, connectionField } from '../../mcp-protocol/bridge-fields.ts'
import { ProtocolError } from '../../mcp-protocol/errors.ts'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import {
  errorText,
  messageText,
  metaOf,
  parseMessages,
  type Received,
  type RequestId,
  type ServerMessage,
} from '../../mcp-protocol/json-rpc.ts'
import { lineReader } from '../../mcp-protocol/lines.ts'
import { messageTextOf } from '../../mcp-protocol/message-text.ts'
import { scopes } from '../../mcp-protocol/scopes.ts'
import { anyone, type Caller } from '../core/caller.ts'
import { Connection, type Sender } from './connection.ts'
import { legacyError } from './errors.ts'
import type { Transports } from './index.ts'

type StdioOptions = {
  readonly transports: Transports
  readonly input: Readable
  readonly output: Writable
  readonly maximumLineBytes: number
  /** The time that running requests may take after the end of the input. */
  readonly graceMs?: number
}

const experimental: JsonObject = { [bridgeCapability]: {} }
const maximumBatch = 100

const callerShape = z.object({
  kind: z.enum(['anyone', 'token', 'user', 'client']),
  principal: z.string(),
  username: z.string().optional(),
  databases: z.array(z.string()).optional(),
  scopes: z.array(z.string()),
  session: z.string(),
  address: z.string().max(64).optional(),
})

const starter: Sender = { caller: anyone, address: undefined }
const unidentified: Caller = { ...anyone, principal: 'nobody', databases: [], scopes: new Set(), session: 'nobody' }

/** Returns the caller that the bridge names. An invalid caller has no rights. */
function senderOf(field: unknown): Sender {
  if (field === undefined) return starter
  const { data } = callerShape.safeParse(field)
  if (data === undefined) return { caller: unidentified, address: undefined }
  const { kind, principal, username, databases, session, address } = data
  const known = new Set(scopes.filter(scope => data.scopes.includes(scope)))
  return { caller: { kind, principal, username, databases, scopes: known, session }, address }
}

/** A message, the name of its connection, and its sender. The message no longer contains the bridge's fields. */
type Addressed = { readonly name: string | undefined; readonly sender: Sender; readonly message: Received }

function addressed(message: Received): Addressed {
  if (message.kind !== 'request' && message.kind !== 'notification')
    return { name: undefined, sender: starter, message }
  const meta = metaOf(message.params)
  const { [connectionField]: name, [callerField]: caller, ...others } = meta
  if (name === undefined && caller === undefined) return { name: undefined, sender: starter, message }
  const { _meta, ...params } = message.params
  const own = Object.keys(others).length === 0 ? params : { ...params, _meta: others }
  return {
    name: typeof name === 'string' ? name : undefined,
    sender: senderOf(caller),
    message: { ...message, params: own },
  }
}

/** The connections on the pipes: of one client, or of a bridge's clients by connection name. */
class Connections {
  readonly #transports: Transports
  readonly #write: (text: string) => void
  readonly #named = new Map<string | undefined, Connection>()
  /** The connection of each request that the server has sent to a client. */
  readonly #connectionOf = new Map<RequestId, Connection>()

  constructor(transports: Transports, write: (text: string) => void) {
    this.#transports = transports
    this.#write = write
  }

  async receive(message: Received): Promise<string | undefined> {
    if (message.kind === 'response') {
      if (message.id === null) return undefined
      const connection = this.#connectionOf.get(message.id)
      this.#connectionOf.delete(message.id)
      return connection?.receive(message, starter)
    }
    const { name, sender, message: own } = addressed(message)
    if (own.kind === 'notification' && own.method === closedMethod) {
      this.#close(name)
      return undefined
    }
    // A connection begins with a request, so the connection of this notification is already closed.
    if (name !== undefined && own.kind === 'notification' && !this.#named.has(name)) return undefined
    const connection = this.#of(name)
    const answer = await connection.receive(own, sender)
    if (name !== undefined && connection.isIdle && this.#named.get(name) === connection) this.#close(name)
    return answer
  }

  close(): void {
    for (const name of [...this.#named.keys()]) this.#close(name)
  }

  #of(name: string | undefined): Connection {
    const known = this.#named.get(name)
    if (known !== undefined) return known
    const connection: Connection = new Connection(
      this.#transports,
      message => {
        if (message.id !== undefined) this.#connectionOf.set(message.id, connection)
        if (message.method === 'notifications/cancelled') this.#forget(message.params.requestId)
        this.#write(messageText(name === undefined ? message : withConnection(message, name)))
      },
      experimental,
    )
    this.#named.set(name, connection)
    return connection
  }

  #forget(id: unknown): void {
    if (typeof id === 'string') this.#connectionOf.delete(id)
  }

  #close(name: string | undefined): void {
    const connection = this.#named.get(name)
    this.#named.delete(name)
    connection?.close()
    for (const [id, owner] of this.#connectionOf) if (owner === connection) this.#connectionOf.delete(id)
  }
}

const withConnection = ({ params, ...message }: ServerMessage, name: string): ServerMessage => ({
  ...message,
  params: { ...params, _meta: { ...metaOf(params), [connectionField]: name } },
})

/** Serves until the end of the input. */
export async function serveStdio(options: StdioOptions): Promise<void> {
  const { transports, input, output, maximumLineBytes, graceMs = 2_000 } = options
  const write = (text: string) => {
    if (output.writable) output.write(`${text}\n`)
  }
  const connections = new Connections(transports, write)
  const running = new Set<Promise<void>>()

  async function answer(messages: readonly Received[], isBatch: boolean): Promise<void> {
    const texts = await Promise.all(messages.map(message => connections.receive(message)))
    const answers = texts.filter(text => text !== undefined)
    if (answers.length > 0) write(isBatch ? `[${answers.join(',')}]` : answers.join(''))
  }

  function take(text: string | undefined): void {
    if (text?.trim() === '') return
    const parsed = parseMessages(text)
    if (parsed.kind === 'no JSON') {
      write(errorText(null, legacyError(new ProtocolError({ kind: 'parse error', problem: parsed.problem }), '')))
      return
    }
    const messages = parsed.kind === 'one' ? [parsed.message] : parsed.messages
    const isBatch = parsed.kind === 'batch'
    if (isBatch && (messages.length === 0 || messages.length > maximumBatch)) {
      write(refused(`a batch must have 1 to ${maximumBatch} messages`))
      return
    }
    const begun = answer(messages, isBatch).catch((error: unknown) => {
      transports.logger.error({ err: error }, 'the server could not answer a message')
    })
    running.add(begun)
    void begun.finally(() => running.delete(begun))
  }

  const read = lineReader(maximumLineBytes)
  // If a write fails, the client has closed the pipe, so the server stops reading.
  output.on('error', () => input.destroy())
  try {
    for await (const chunk of input) {
      for (const line of read(Buffer.from(chunk))) {
        if (line.kind === 'too long') write(refused(`a message must have at most ${maximumLineBytes} bytes`))
        else take(messageTextOf(line.bytes))
      }
      if (output.writableNeedDrain) await Promise.race([once(output, 'drain'), once(output, 'close')])
    }
  } catch (error) {
    if (!input.destroyed) throw error
  }
  const grace = new Promise<void>(resolve => setTimeout(resolve, graceMs).unref())
  await Promise.race([Promise.all(running), grace])
  connections.close()
}

const refused = (problem: string): string =>
  errorText(null, legacyError(new ProtocolError({ kind: 'invalid request', problem }), ''))
