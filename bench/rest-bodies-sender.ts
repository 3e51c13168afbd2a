/**
 * Sends large bodies from a separate process, because creating and sending them must not slow down the process that
 * measures.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { fileURLToPath } from 'node:url'
import { kinds } from './rest-bodies-kinds.ts'

type Order = { port: number; kind: string; withBody: boolean; times: number }
type Sent = { seconds: number; statuses: string }
export type Sender = { send(order: Order): Promise<Sent>; stop(): void }

/** Resolves with the status of the response, or with the error of the connection. */
function sendOne(port: number, head: string, pieces: readonly Buffer[]): Promise<string> {
  return new Promise(resolve => {
    const socket = connect({ host: '127.0.0.1', port })
    socket.on('connect', () => {
      socket.write(head)
      for (const piece of pieces) socket.write(piece)
    })
    socket.once('data', data => {
      resolve(data.toString('latin1', 9, 12))
      socket.destroy()
    })
    socket.on('error', ({ code }: NodeJS.ErrnoException) => resolve(code ?? 'error'))
    socket.on('close', () => resolve('closed'))
  })
}

const bodies = new Map<string, readonly Buffer[]>()

async function fire({ port, kind, withBody, times }: Order): Promise<Sent> {
  const found = kinds.find(({ name }) => name === kind)
  if (found === undefined) throw new Error(`no kind ${kind}`)
  const { line, headers = [], isChunked = false, body } = found
  if (withBody && !bodies.has(kind)) bodies.set(kind, body())
  const pieces = withBody ? (bodies.get(kind) ?? []) : []
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0)
  const framing = isChunked && withBody ? 'Transfer-Encoding: chunked' : `Content-Length: ${length}`
  const head = `${[`${line} HTTP/1.1`, 'Host: localhost', framing, ...headers].join('\r\n')}\r\n\r\n`
  const began = performance.now()
  const all = await Promise.all(Array.from({ length: times }, () => sendOne(port, head, pieces)))
  const seconds = (performance.now() - began) / 1_000
  return { seconds, statuses: [...new Set(all)].sort().join(' ') }
}

export function startSender(): Sender {
  const child: ChildProcess = fork(fileURLToPath(import.meta.url), { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  return {
    async send(order) {
      child.send(order)
      const [answer] = await once(child, 'message')
      if (typeof answer === 'string') throw new Error(answer)
      return answer
    },
    stop: () => child.disconnect(),
  }
}

if (import.meta.main) {
  process.on('message', (order: Order) => {
    fire(order).then(
      sent => process.send?.(sent),
      (error: Error) => process.send?.(error.message),
    )
  })
}
