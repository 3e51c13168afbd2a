/**
 * Creates an HTTP response. The response is JSON, or a stream of server-sent events if the server sends a message
 * before the result. In a stream, the result is the last message. Comments in the stream keep an idle connection open.
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

/** If a stream has started, `text` is the stream's last message. Otherwise, `response` is the HTTP response. */
type Answered = { readonly response: HttpResponse; readonly text: string | undefined }

/** `run` receives a function that sends a message before the result. The first message starts a stream. */
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
