/**
 * A server's check of itself, for probes that can only send a GET. The server sends itself the requests of `-ready`,
 * over its own address, with a token that only this process knows. After the first success, it sends no more requests.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { bearerToken } from '../authentication/bearer.ts'
import { json } from '../http/json-answers.ts'
import type { HttpResponse } from '../http/message.ts'
import { StartupCheck } from '../http/startup-check.ts'
import { probeTools } from './probe.ts'

/** The path for probes. */
export const selfCheckPath = '/ready/database'

type Target = Parameters<typeof probeTools>[0]

export class SelfCheck {
  readonly #token = Buffer.from(randomBytes(32).toString('base64url'))
  readonly #check = new StartupCheck(() => this.#sendRequest())
  #target: Target | undefined

  /** Called after the server has started to listen at `target`. */
  begin(target: Target): void {
    this.#target = target
  }

  /** Whether this self-check sent a request. */
  isOwn(authorization: string | undefined): boolean {
    const received = Buffer.from(bearerToken(authorization) ?? '')
    return !this.#check.isReady && received.length === this.#token.length && timingSafeEqual(received, this.#token)
  }

  async answer(): Promise<HttpResponse> {
    const reason = await this.#check.run()
    return reason === undefined ? json(200, { status: 'ready' }) : json(503, { status: 'not_ready', reason })
  }

  async #sendRequest(): Promise<string | undefined> {
    if (this.#target === undefined) return 'the server is not listening yet'
    const { isReady, text } = await probeTools(this.#target, this.#token.toString())
    return isReady ? undefined : text
  }
}
