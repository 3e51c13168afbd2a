/**
 * A client of HAProxy's runtime API (HAProxy management guide, "Unix Socket commands"), over one connection in its
 * interactive mode. All commands of a connection reach the same HAProxy process. A new connection may reach another
 * process, so the content of the maps is then unknown.
 *
 * Whatever the other side does, each command is answered or fails within a time limit, and the length of an answer is
 * limited.
 */
import { connect } from 'node:net'

type RuntimeAnswer = { kind: 'answer'; text: string } | { kind: 'lost'; reason: string }

export type RuntimeConnection = {
  /**
   * Sends a command, with its payload if it has one. Several commands may run at once; HAProxy answers them in order.
   */
  command(text: string): Promise<RuntimeAnswer>
  /** Resolves with the reason once the connection has ended. */
  over: Promise<string>
  close(): void
}

export type RuntimeLimits = {
  /** How long each answer may take, in milliseconds. */
  answerMs: number
  /** The longest answer, in bytes. */
  answerBytes: number
}

export const runtimeLimits: RuntimeLimits = { answerMs: 5_000, answerBytes: 1024 * 1024 }

/** The end of an answer in interactive mode. */
const prompt = '\n> '
/** HAProxy also prompts for each line of a payload. */
const payloadPrompts = /^(\+ )+/

export async function connectRuntime(
  path: string,
  limits: RuntimeLimits = runtimeLimits,
): Promise<RuntimeConnection | { kind: 'lost'; reason: string }> {
  const socket = connect({ path })
  const waiting: { resolve: (answer: RuntimeAnswer) => void; since: number }[] = []
  const over = Promise.withResolvers<string>()
  let ended: string | undefined
  let received = ''

  const end = (reason: string): void => {
    if (ended !== undefined) return
    ended = reason
    clearInterval(watch)
    socket.destroy()
    for (const { resolve } of waiting.splice(0)) resolve({ kind: 'lost', reason })
    over.resolve(reason)
  }
  /** One timer for all commands, because only the first command in the queue can be late. */
  const watch = setInterval(
    () => {
      const first = waiting[0]
      if (first !== undefined && performance.now() - first.since > limits.answerMs)
        end(`no answer within ${limits.answerMs} ms`)
    },
    Math.min(limits.answerMs / 4, 250),
  )

  socket.setEncoding('utf8')
  socket.on('error', error => end('code' in error ? String(error.code) : error.message))
  socket.on('close', () => end('closed by HAProxy'))
  socket.on('data', (chunk: string) => {
    received += chunk
    // Searches the new part and the last bytes before it, because a prompt may be split between two chunks.
    let from = Math.max(0, received.length - chunk.length - prompt.length)
    for (let at = received.indexOf(prompt, from); at >= 0; at = received.indexOf(prompt)) {
      const first = waiting.shift()
      if (first === undefined) return end('an answer without a command')
      first.resolve({ kind: 'answer', text: received.slice(0, at).replace(payloadPrompts, '').trim() })
      const next = waiting[0]
      if (next !== undefined) next.since = performance.now()
      received = received.slice(at + prompt.length)
      from = 0
    }
    if (received.length > limits.answerBytes) end(`an answer of more than ${limits.answerBytes} bytes`)
  })

  const command = (text: string): Promise<RuntimeAnswer> => {
    if (ended !== undefined) return Promise.resolve({ kind: 'lost', reason: ended })
    return new Promise(resolve => {
      waiting.push({ resolve, since: performance.now() })
      socket.write(`${text}\n`)
    })
  }

  const greeting = await command('prompt')
  if (greeting.kind === 'lost') return greeting
  if (greeting.text !== '') {
    end('the server does not behave like HAProxy')
    return { kind: 'lost', reason: 'the server does not behave like HAProxy' }
  }
  return { command, over: over.promise, close: () => end('closed') }
}
