/**
 * Sends the load for the REST service from a separate process. Each keep-alive connection sends the same request again
 * as soon as the response is complete. The process uses sockets directly, and reads only the status and the end of a
 * response, so that one thread can send several times more requests than the servers can handle.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { percentile } from './statistics.ts'

/**
 * `request` is the complete text of a request. With `seconds: 0`, each connection sends one request. With `perSecond`,
 * the load is an open loop: this number of requests is due per second, even if earlier responses are missing. Latency
 * then counts from the time at which a request is due.
 */
type Order = { port: number; request: string; connections: number; seconds: number; perSecond?: number }
/**
 * Latencies in ms. Failures are responses that are not 2xx. `firstByte` is the longest time to the first byte of a
 * response.
 */
export type Measure = {
  perSecond: number
  firstByte: number
  p50: number
  p99: number
  worst: number
  answers: number
  failures: number
  bytes: number
}

const headEnd = Buffer.from('\r\n\r\n')
const lastChunk = '0\r\n\r\n'

/** Finds the ends of consecutive responses by their length or chunks (RFC 9112 section 6). */
class AnswerReader {
  #head: Buffer | undefined
  /** The remaining bytes of the body; undefined if it is chunked. */
  #missing: number | undefined
  #isOpen = false
  #tail = ''
  isSuccess = false

  /** Returns whether the response ends with this chunk. */
  push(chunk: Buffer): boolean {
    if (this.#isOpen) return this.#body(chunk)
    const data = this.#head === undefined ? chunk : Buffer.concat([this.#head, chunk])
    const end = data.indexOf(headEnd)
    if (end === -1) {
      this.#head = data
      return false
    }
    this.#head = undefined
    this.#isOpen = true
    this.#tail = ''
    const text = data.toString('latin1', 0, end)
    this.isSuccess = text.startsWith('HTTP/1.1 2')
    const length = /\r\ncontent-length: *([0-9]+)/i.exec(text)?.[1]
    const hasChunks = length === undefined && /\r\ntransfer-encoding: *chunked/i.test(text)
    this.#missing = hasChunks ? undefined : Number(length ?? 0)
    return this.#body(data.subarray(end + headEnd.length))
  }

  #body(chunk: Buffer): boolean {
    let isDone: boolean
    if (this.#missing === undefined) {
      this.#tail = (this.#tail + chunk.toString('latin1', Math.max(0, chunk.length - lastChunk.length))).slice(
        -lastChunk.length,
      )
      isDone = this.#tail === lastChunk
    } else {
      this.#missing -= chunk.length
      isDone = this.#missing <= 0
    }
    if (isDone) this.#isOpen = false
    return isDone
  }
}

async function open(port: number): Promise<Socket> {
  const socket = connect({ host: '127.0.0.1', port, noDelay: true })
  await once(socket, 'connect')
  return socket
}

/** Determines when a connection sends the next request, and when no requests remain. */
type Sender = { send(due: number): void; end(): void }
type Pace = (sender: Sender) => void

/** Sends the next request as soon as the response is complete. Each connection sends at least one request. */
function closedLoop(until: number, connections: number): Pace {
  let begun = 0
  return sender => {
    const now = performance.now()
    if (begun++ < connections || now < until) sender.send(now)
    else sender.end()
  }
}

/**
 * Sends the due requests every millisecond. A shorter interval would take processor time from the measured servers.
 */
export function openLoop(perSecond: number, until: number): Pace {
  const due: number[] = []
  const waiting: Sender[] = []
  let last = performance.now()
  let owed = 0
  const timer = setInterval(() => {
    const now = performance.now()
    owed += ((now - last) / 1000) * perSecond
    last = now
    for (; owed >= 1; owed--) due.push(now)
    for (; due.length > 0 && waiting.length > 0; ) waiting.shift()?.send(due.shift() ?? now)
    if (now < until) return
    clearInterval(timer)
    for (const sender of waiting.splice(0)) sender.end()
  }, 1)
  return sender => {
    const time = due.shift()
    if (performance.now() >= until) sender.end()
    else if (time === undefined) waiting.push(sender)
    else sender.send(time)
  }
}

/** Runs the load once, in the child process. */
async function fire({ port, request, connections, seconds, perSecond }: Order): Promise<Measure> {
  const sockets = await Promise.all(Array.from({ length: connections }, () => open(port)))
  const bytes = Buffer.from(request)
  const times: number[] = []
  let failures = 0
  let received = 0
  let firstByte = 0
  const began = performance.now()
  const until = began + seconds * 1000
  const pace = perSecond === undefined ? closedLoop(until, connections) : openLoop(perSecond, until)
  const work = (socket: Socket) =>
    new Promise<void>((resolve, reject) => {
      const reader = new AnswerReader()
      let due = 0
      let isBegun = false
      const sender: Sender = {
        send(time) {
          due = time
          isBegun = false
          socket.write(bytes)
        },
        end: resolve,
      }
      socket.on('error', reject).on('close', () => reject(new Error('the server closed the connection')))
      socket.on('data', chunk => {
        received += chunk.length
        if (!isBegun) {
          isBegun = true
          firstByte = Math.max(firstByte, performance.now() - due)
        }
        if (!reader.push(chunk)) return
        times.push(performance.now() - due)
        if (!reader.isSuccess) failures++
        pace(sender)
      })
      pace(sender)
    })
  await Promise.all(sockets.map(work))
  const took = (performance.now() - began) / 1000
  for (const socket of sockets) socket.destroy()
  return {
    perSecond: times.length / took,
    firstByte,
    p50: percentile(times, 0.5),
    p99: percentile(times, 0.99),
    worst: percentile(times, 1),
    answers: times.length,
    failures,
    bytes: received,
  }
}

/** Serves the same bytes to every request, in a child process. Its rate is the maximum that the load can reach. */
async function answerBlindly(): Promise<number> {
  const answer = Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]')
  const server = createServer(socket => {
    socket.on('error', () => {}).on('data', () => socket.write(answer))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = server.address()
  return typeof address === 'object' && address !== null ? address.port : 0
}

export type Load = { measure(order: Order): Promise<Measure>; stop(): void }

const child = (role: 'load' | 'blind'): ChildProcess =>
  fork(fileURLToPath(import.meta.url), [role], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })

export function startLoad(): Load {
  const process_ = child('load')
  return {
    async measure(order) {
      process_.send(order)
      const [answer] = await once(process_, 'message')
      if (typeof answer === 'string') throw new Error(answer)
      return answer
    },
    stop: () => process_.disconnect(),
  }
}

/** Measures the load with a server that does no work: this part of the figures is not a cost of the servers. */
export async function loadAlone(load: Load, order: Omit<Order, 'port' | 'request' | 'seconds'>): Promise<Measure> {
  const blind = child('blind')
  const [port] = await once(blind, 'message')
  const measured = await load.measure({ ...order, port, request: requestText('/'), seconds: 2 })
  blind.kill()
  return measured
}

/** Returns the bytes of a GET, or with a body of a POST with JSON. */
export function requestText(path: string, body?: string): string {
  const head = [
    `${body === undefined ? 'GET' : 'POST'} ${path} HTTP/1.1`,
    'Host: localhost',
    'Accept: application/json',
  ]
  if (body !== undefined) head.push('Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`)
  return `${head.join('\r\n')}\r\n\r\n${body ?? ''}`
}

if (import.meta.main && process.argv[2] === 'blind') process.send?.(await answerBlindly())
else if (import.meta.main && process.argv[2] === 'load') {
  process.on('message', (order: Order) => {
    fire(order).then(
      measured => process.send?.(measured),
      (error: Error) => process.send?.(error.message),
    )
  })
}
