/**
 * Counts all open streams. Also has the streams without a session, which receive the notifications of all sessions of
 * the same caller.
 */
import type { AnswerStream, HttpResponse } from '../http/message.ts'
import { discardWithClient, EventStream, keepAlive, type StreamLimits } from '../mcp-protocol/event-stream.ts'
import { type NotificationMessage, writeMessage } from '../mcp-protocol/json-rpc.ts'
import { streamAnswer } from './answers.ts'
import type { BridgeCaller } from './callers.ts'

type Watcher = { readonly principal: string; readonly stream: EventStream }

export class Watchers {
  readonly #maximum: number
  readonly #limits: StreamLimits
  readonly #watchers = new Set<Watcher>()
  readonly #open = new Set<AnswerStream>()

  constructor(maximum: number, limits: StreamLimits) {
    this.#maximum = maximum
    this.#limits = limits
  }

  hasCapacity(): boolean {
    return this.#open.size < this.#maximum
  }

  /** Counts the response as an open stream while it is written. */
  counted(answer: HttpResponse): HttpResponse {
    const { stream } = answer
    if (stream === undefined) return answer
    const counting = async (out: AnswerStream) => {
      this.#open.add(out)
      try {
        await stream(out)
      } finally {
        this.#open.delete(out)
      }
    }
    return { ...answer, stream: counting }
  }

  watch({ principal }: BridgeCaller, signal: AbortSignal): HttpResponse {
    const watcher = { principal, stream: new EventStream('0', this.#limits, false) }
    discardWithClient(watcher.stream, signal)
    if (!signal.aborted) this.#watchers.add(watcher)
    signal.addEventListener('abort', () => this.#watchers.delete(watcher))
    return streamAnswer(watcher.stream, { after: undefined, isPrimed: false, signal })
  }

  /** @param principal undefined: notifies the streams of all callers */
  notify(principal: string | undefined, message: NotificationMessage): void {
    const text = JSON.stringify(writeMessage(message))
    for (const watcher of this.#watchers)
      if (principal === undefined || watcher.principal === principal) watcher.stream.send(text)
  }

  /** Writes to all open streams, so that proxies do not close idle connections. */
  keepAlive(): void {
    for (const out of this.#open) out.write(keepAlive)
  }

  close(reason: string): void {
    for (const { stream } of this.#watchers) stream.disconnect(reason)
    this.#watchers.clear()
  }
}
