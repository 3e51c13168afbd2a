/**
 * Counts the requests in progress of each role. A request counts until its response has been sent or its client has
 * disconnected.
 */
import type { HttpResponse } from '../../http/message.ts'
import { tooManyAtOnce } from '../errors/catalogue.ts'

export class InFlight {
  readonly #counts = new Map<string, number>()

  of(role: string): number {
    return this.#counts.get(role) ?? 0
  }

  #leave(role: string): void {
    const rest = this.of(role) - 1
    if (rest > 0) this.#counts.set(role, rest)
    else this.#counts.delete(role)
  }

  /**
   * Calls `answer` if the role has fewer requests in progress than this limit.
   * @throws RestError at the limit, and what `answer` throws
   */
  async admit(
    role: string,
    maximum: number | undefined,
    signal: AbortSignal,
    answer: () => Promise<HttpResponse>,
  ): Promise<HttpResponse> {
    if (maximum === undefined) return answer()
    if (this.of(role) >= maximum) throw tooManyAtOnce(role, maximum)
    this.#counts.set(role, this.of(role) + 1)
    let isOver = false
    const release = () => {
      if (isOver) return
      isOver = true
      signal.removeEventListener('abort', release)
      this.#leave(role)
    }
    let isStreamed = false
    try {
      const response = await answer()
      const { stream } = response
      if (stream === undefined) return response
      isStreamed = true
      signal.addEventListener('abort', release)
      if (signal.aborted) release()
      return { ...response, stream: out => stream(out).finally(release) }
    } finally {
      if (!isStreamed) release()
    }
  }
}
