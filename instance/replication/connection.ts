/** A connection of the replication protocol (manual, "Streaming Replication Protocol"), by client certificate. */
import type { Socket } from 'node:net'
import {
  columnsOf,
  type Message,
  messagesOf,
  PostgresError,
  queryMessage,
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
   * @param socket a TLS connection to Postgres, which has shown the client's certificate
   * @throws PostgresError, Error
   */
  static async open(socket: Socket, user: string, applicationName: string): Promise<ReplicationConnection> {
    const connection = new ReplicationConnection(socket)
    const parameters = { user, replication: 'true', application_name: applicationName }
    socket.write(startupMessage(parameters))
    for (;;) {
      const { type, body } = await connection.next()
      if (type === 'Z') return connection
      if (type === 'R' && body.readInt32BE(0) !== 0) throw new Error('Postgres requires more than the certificate')
    }
  }

  /** Sends one statement; `next` reads its answer. */
  send(statement: string): void {
    this.#socket.write(queryMessage(statement))
  }

  /** The next message; notices and parameters are skipped. @throws PostgresError, Error if the connection has ended */
  async next(): Promise<Message> {
    for (;;) {
      const { done, value } = await this.#messages.next()
      if (done) throw new Error('Postgres closed the connection')
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
