/**
 * An answer over HTTP that is JSON if nothing precedes it, and server-sent events if something does. Nothing is sent after the answer, and a connection on which nothing happens is kept open.
 */
import type { AnswerStream, HttpResponse } from '../../http/message.ts'
import { EventStream, keepAlive, streamHeaders } from '../../mcp-protocol/event-stream.ts'

const keepAliveMs = 15_000

async function writeTo(out: AnswerStream, events: EventStream): Promise<void> {
  const timer = setInterval(() => out.write(keepAlive), keepAliveMs)
  try {
    await events.attach(out, undefined, false)
  } finally {
    clearInterval(timer)
  }
}

/** What comes of a request: the answer in one piece, with its status; or what its stream ends with. */
type Answered = { readonly response: HttpResponse; readonly text: string | undefined }

/** `run` is given what sends a message before the answer, which makes a stream of it. */
export function answerOrStream(
  run: (send: (message: string) => void) => Promise<Answered>,
  signal: AbortSignal,
): Promise<HttpResponse> {
  return new Promise((resolve, reject) => {
    let stream: EventStream | undefined
    const send = (message: string) => {
      if (stream === undefined) {
        const events = new EventStream()
        stream = events
        signal.addEventListener('abort', () => events.end())
        resolve({ status: 200, headers: streamHeaders, body: undefined, stream: out => writeTo(out, events) })
      }
      stream.send(message)
    }
    run(send).then(
      ({ response, text }) => {
        if (text !== undefined) stream?.send(text)
        stream?.end()
        resolve(response)
      },
      (error: unknown) => {
        stream?.end()
        reject(error)
      },
    )
  })
}
