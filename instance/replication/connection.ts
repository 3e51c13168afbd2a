/**
 * A connection with the replication protocol (manual, "Streaming Replication Protocol"). It logs in by client
 * certificate.
 */
import type { Socket } from 'node:net'
import {
  ConnectionClosed,
  columnsOf,
  copyDoneMessage,
  copyMessage,
  type Message,
  messagesOf,
  PostgresError,
  queryMessage,
  requireAuthenticated,
  startupMessage,
  terminateMessage,
} from '../protocol/messages.ts'

export class ReplicationConnection {
  readonly #socket: Socket
  readonly #messages: AsyncIterator<Message>

  private constructor(socket: Socket) {
    this.#socket = socket
    this.#messages = messagesOf(socket)[Symbol.asyncIterator]()
  }

  /**
   * Logs in.
   * @param socket a TLS connection to Postgres with the client's certificate
   * @throws PostgresError, Error
   */
  static async open(socket: Socket, user: string, applicationName: string): Promise<ReplicationConnection> {
    const connection = new ReplicationConnection(socket)
    const parameters = { user, replication: 'true', application_name: applicationName }
    socket.write(startupMessage(parameters))
    for (;;) {
      const message = await connection.next()
      if (message.type === 'Z') return connection
      requireAuthenticated(message)
    }
  }

  /** Sends one statement; `next` reads its response. */
  send(statement: string): void {
    this.#socket.write(queryMessage(statement))
  }

  /** Sends data within a copy. */
  copy(data: Buffer): void {
    if (!this.#socket.destroyed) this.#socket.write(copyMessage(data))
  }

  /** Ends a copy. Does not read the rest that Postgres sends. */
  endCopy(): void {
    if (!this.#socket.destroyed) this.#socket.write(copyDoneMessage())
  }

  /** The next message; notices and parameters are skipped. @throws PostgresError, ConnectionClosed */
  async next(): Promise<Message> {
    for (;;) {
      const { done, value } = await this.#messages.next()
      if (done) throw new ConnectionClosed()
      if (value.type === 'E') throw new PostgresError(value.body)
      if (value.type !== 'N' && value.type !== 'S') return value
    }
  }

  /** All rows of all results of one statement. @throws PostgresError, Error */
  async query(statement: string): Promise<(string | null)[][]> {
    this.send(statement)
    const rows: (string | null)[][] = []
    for (;;) {
      const { type, body } = await this.next()
      if (type === 'D') rows.push(columnsOf(body))
      if (type === 'Z') return rows
    }
  }

  close(): void {
    if (!this.#socket.destroyed) this.#socket.end(terminateMessage(), () => this.#socket.destroy())
  }
}

/** Microseconds since 2000, as in the protocol. */
const epochMs = 946_684_800_000
/**
 * A status message within a copy of WAL: written and flushed up to `at`. The receiver never applies WAL, so it does not
 * count as a replica.
 */
export function statusUpdate(at: bigint, requestsReply = true): Buffer {
  const bytes = Buffer.alloc(34)
  bytes.write('r', 0, 'latin1')
  bytes.writeBigUInt64BE(at, 1)
  bytes.writeBigUInt64BE(at, 9)
  bytes.writeBigInt64BE(BigInt(Date.now() - epochMs) * 1000n, 25)
  bytes[33] = requestsReply ? 1 : 0
  return bytes
}
