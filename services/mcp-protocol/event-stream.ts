/**
 * An answer over HTTP that is JSON where nothing comes before it, and server-sent events where something does. It promises that whatever is sent after the
 * answer goes nowhere, and that a connection on which nothing happens is kept open.
 */

import type { HeaderList } from '../http/headers.ts'
import type { AnswerStream, HttpResponse } from '../http/message.ts'

const keepAliveMs = 15_000

/** For whoever reads events that come one by one. */
export const streamHeaders: HeaderList = [
  ['Content-Type', 'text/event-stream'],
  ['Cache-Control', 'no-cache, no-transform'],
  ['X-Accel-Buffering', 'no'],
]

export const keepAlive = ': keepalive\n\n'

const event = (message: string): string => `event: message\ndata: ${message}\n\n`

/** Messages that wait for the stream to begin, and then go straight to it. */
class EventStream {
  readonly #waiting: string[] = []
  #out: AnswerStream | undefined
  #finish: () => void = () => {}
  #isOver = false

  push(message: string): void {
    if (this.#isOver) return
    if (this.#out === undefined) this.#waiting.push(event(message))
    else this.#out.write(event(message))
  }

  end(message: string | undefined): void {
    if (message !== undefined) this.push(message)
    this.#isOver = true
    this.#finish()
  }

  async run(out: AnswerStream): Promise<void> {
    this.#out = out
    for (const text of this.#waiting.splice(0)) out.write(text)
    if (this.#isOver) return
    const timer = setInterval(() => out.write(keepAlive), keepAliveMs)
    await new Promise<void>(resolve => {
      this.#finish = resolve
    })
    clearInterval(timer)
  }
}

/** What comes of a request: the answer in one piece, with its status; or what its stream ends with. */
type Answered = { readonly response: HttpResponse; readonly text: string | undefined }

/** `run` is given what sends a message before the answer, which makes a stream of it. */
export async function answerOrStream(
  run: (send: (message: string) => void) => Promise<Answered>,
  signal: AbortSignal,
): Promise<HttpResponse> {
  let stream: EventStream | undefined
  let begin: (response: HttpResponse) => void = () => {}
  const begun = new Promise<HttpResponse>(resolve => {
    begin = resolve
  })
  const send = (message: string) => {
    if (stream === undefined) {
      const events = new EventStream()
      stream = events
      signal.addEventListener('abort', () => events.end(undefined))
      begin({ status: 200, headers: streamHeaders, body: undefined, stream: out => events.run(out) })
    }
    stream.push(message)
  }
  const done = run(send).then(
    ({ response, text }) => {
      stream?.end(text)
      return response
    },
    (error: unknown) => {
      stream?.end(undefined)
      throw error
    },
  )
  return Promise.race([begun, done])
}
