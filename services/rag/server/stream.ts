/**
 * Sends an answer as server-sent events. The headers are sent with the first piece, so that an earlier failure is a
 * response with its own status. A later error is the last event. The writer waits for a slow client, and stops the
 * provider if the client disconnects.
 */
import type { HeaderList } from '../../http/headers.ts'
import type { AnswerStream, HttpResponse } from '../../http/message.ts'
import { RagError } from '../errors.ts'
import { ragErrorOf } from './answers.ts'
import type { Deadline } from './deadline.ts'

type Texts = AsyncGenerator<string, { readonly tokensUsed: number }>

const event = (value: object): string => `data: ${JSON.stringify(value)}\n\n`

/** Node sets `Connection: keep-alive`. `X-Accel-Buffering` prevents nginx from buffering the pieces. */
const usualHeaders: HeaderList = [
  ['Content-Type', 'text/event-stream'],
  ['Cache-Control', 'no-cache'],
  ['X-Accel-Buffering', 'no'],
]

/** The event for an error in an answer that has already started. */
function eventOf(error: unknown): string {
  const { code, message } = ragErrorOf(error)
  return event({ type: 'error', error: { code: code === 'REQUEST_TIMEOUT' ? code : 'STREAMING_ERROR', message } })
}

export type Ended = { readonly tokensUsed: number } | { readonly error: unknown }

/**
 * Calls `onEnd` once, when the stream has ended.
 * @throws errors of the answer before its first piece
 */
export async function streamAnswer(
  texts: Texts,
  deadline: Deadline,
  onEnd: (ended: Ended) => void,
  headers: HeaderList = [],
): Promise<HttpResponse> {
  const { signal } = deadline
  /** Ends the request to the provider, but does not wait for it, because it may block. */
  const stop = () => void texts.return({ tokensUsed: 0 }).catch(() => {})
  const next = () => deadline.race(texts.next())
  let piece: IteratorResult<string, { readonly tokensUsed: number }>
  try {
    piece = await next()
  } catch (error) {
    stop()
    throw error
  }
  // If a client disconnects before the headers are sent, the HTTP server never writes the answer.
  const abandon = () => {
    stop()
    onEnd({ error: signal.reason })
  }
  signal.addEventListener('abort', abandon, { once: true })
  if (signal.aborted) abandon()
  const write = async (out: AnswerStream) => {
    signal.removeEventListener('abort', abandon)
    try {
      while (!piece.done) {
        if (piece.value !== '' && !out.write(event({ type: 'chunk', content: piece.value }))) {
          // A client that reads slowly has its own limit, so the deadline pauses.
          deadline.pause()
          await deadline.race(out.drained())
        }
        deadline.restart()
        piece = await next()
      }
      out.write(event({ type: 'done' }))
      onEnd({ tokensUsed: piece.value.tokensUsed })
    } catch (error) {
      stop()
      if (!signal.aborted || signal.reason instanceof RagError) out.write(eventOf(error))
      onEnd({ error })
    }
  }
  return { status: 200, headers: [...usualHeaders, ...headers], body: undefined, stream: write }
}
