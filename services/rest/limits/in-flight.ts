/** How many requests of each role are being answered. It promises that each is counted until its answer has been sent, or nobody wants it any more. */
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
   * Answers where the role has less than so many under way.
   * @throws RestError where it has not, and what `answer` throws
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
    const leave = () => {
      if (isOver) return
      isOver = true
      signal.removeEventListener('abort', leave)
      this.#leave(role)
    }
    let isStreamed = false
    try {
      const response = await answer()
      const { stream } = response
      if (stream === undefined) return response
      isStreamed = true
      signal.addEventListener('abort', leave)
      if (signal.aborted) leave()
      return { ...response, stream: out => stream(out).finally(leave) }
    } finally {
      if (!isStreamed) leave()
    }
  }
}
