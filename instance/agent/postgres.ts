/**
 * One short session with the Postgres of the pod: log in with a certificate, query, log out (PostgreSQL manual,
 * "Frontend/Backend Protocol"). A permanent session would block CREATE DATABASE, because Postgres cannot copy template1
 * while another session uses it. The size of each message and the total time are limited.
 */
import { connect as connectPlainly, type Socket } from 'node:net'
import { connect as connectSecurely, type TLSSocket } from 'node:tls'
import { queryMessage, requireAuthenticated, startupMessage, terminateMessage } from '../protocol/messages.ts'

type PostgresLogin = {
  host: string
  port: number
  user: string
  database: string
  /** In PEM: the client's certificate and key, and the authorities that verify the server's certificate. */
  cert: string
  key: string
  ca: string
  serverName: string
}

const sslRequestCode = 80_877_103
/** How long Postgres may take to close the connection after Terminate. */
const leaveMs = 2_000
/** The maximum size of one message. The result of the sample's query has less than 2 KB. */
const mostBytes = 64 * 1024

const int32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}
function startup({ user, database }: PostgresLogin, timeoutMs: number): Buffer {
  return startupMessage({
    user,
    database,
    application_name: 'espalier-agent',
    client_encoding: 'UTF8',
    options: `-c search_path=pg_catalog -c statement_timeout=${timeoutMs} -c lock_timeout=${timeoutMs} -c default_transaction_read_only=on`,
  })
}

/** The first column of a DataRow. */
function firstColumn(row: Buffer): string | null {
  if (row.length < 6 || row.readInt16BE(0) < 1) throw new Error('Postgres answered without a column')
  const length = row.readInt32BE(2)
  return length < 0 ? null : row.toString('utf8', 6, 6 + length)
}

/** An ErrorResponse in one line: SQLSTATE and message. */
function errorText(body: Buffer): string {
  const fields = new Map(
    body
      .toString('utf8')
      .split('\0')
      .map(field => [field[0], field.slice(1)]),
  )
  return `${fields.get('C') ?? ''} ${fields.get('M') ?? 'no message'}`.trim()
}

/** Reads messages one after another from received data. */
function readMessages(socket: Socket, take: (type: string, body: Buffer) => void): void {
  let rest: Buffer = Buffer.alloc(0)
  socket.on('data', (chunk: Buffer) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    while (rest.length >= 5) {
      const length = rest.readInt32BE(1)
      if (length < 4 || length > mostBytes) {
        socket.destroy(new Error(`Postgres sent an invalid message, or a message above ${mostBytes} bytes`))
        return
      }
      if (rest.length < length + 1) return
      take(String.fromCharCode(rest[0] ?? 0), rest.subarray(5, length + 1))
      rest = rest.subarray(length + 1)
    }
  })
}

/** Opens TLS with Postgres: the request is in clear text, and Postgres answers with one byte. */
async function secured(login: PostgresLogin, sockets: Socket[]): Promise<TLSSocket> {
  const socket = connectPlainly({ host: login.host, port: login.port })
  sockets.push(socket)
  await new Promise<void>((resolve, reject) => {
    socket.once('error', reject)
    socket.once('close', () => reject(new Error('Postgres closed the connection')))
    socket.once('connect', () => socket.write(Buffer.concat([int32(8), int32(sslRequestCode)])))
    // Accepts exactly one byte: further unencrypted bytes could be from an attacker.
    socket.once('data', (answer: Buffer) =>
      answer.length === 1 && answer[0] === 0x53 ? resolve() : reject(new Error('Postgres does not accept TLS')),
    )
  })
  const { cert, key, ca, serverName } = login
  const secure = connectSecurely({ socket, cert, key, ca, servername: serverName, minVersion: 'TLSv1.2' })
  sockets.push(secure)
  return new Promise((resolve, reject) => {
    secure.once('error', reject)
    secure.once('close', () => reject(new Error('Postgres closed the connection')))
    secure.once('secureConnect', () => resolve(secure))
  })
}

/** Runs each statement after the login. Resolves to the first column of each statement's first row. */
function converse(socket: TLSSocket, first: Buffer, statements: readonly string[]): Promise<(string | null)[]> {
  return new Promise((resolve, reject) => {
    const answers: (string | null)[] = []
    let sentCount = 0
    socket.once('error', reject)
    socket.once('close', () => reject(new Error('Postgres closed the connection')))
    readMessages(socket, (type, body) => {
      try {
        if (type === 'E') throw new Error(errorText(body))
        requireAuthenticated({ type, body })
        if (type === 'D' && answers.length < sentCount) answers.push(firstColumn(body))
        if (type !== 'Z') return
        while (answers.length < sentCount) answers.push(null)
        const next = statements[sentCount]
        sentCount += 1
        if (next !== undefined) socket.write(queryMessage(next))
        else {
          socket.end(terminateMessage())
          socket.setTimeout(leaveMs, () => socket.destroy())
          resolve(answers)
        }
      } catch (error) {
        reject(error)
      }
    })
    socket.write(first)
  })
}

/**
 * @throws if Postgres cannot be reached, refuses the login or a statement, or takes longer than `timeoutMs` in total
 */
export async function query(
  login: PostgresLogin,
  statements: readonly string[],
  timeoutMs: number,
): Promise<(string | null)[]> {
  const sockets: Socket[] = []
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`Postgres did not answer within ${timeoutMs} ms`)), timeoutMs)
  try {
    const session = (async () => converse(await secured(login, sockets), startup(login, timeoutMs), statements))()
    return await Promise.race([session, late])
  } catch (error) {
    for (const socket of sockets) socket.destroy()
    throw error
  } finally {
    clearTimeout(timer)
    for (const socket of sockets) socket.on('error', () => {}) // ignores later errors
  }
}
