/**
 * A server's check of itself, for probes that only send a GET: it sends itself what `-ready` sends, over its own address, with a token that only this process knows, until that has been answered once.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { bearerToken } from '../authentication/bearer.ts'
import { json } from '../http/json-answers.ts'
import type { HttpResponse } from '../http/message.ts'
import { probeTools } from './probe.ts'

/** Where probes ask. */
export const selfCheckPath = '/ready/database'

type Target = Parameters<typeof probeTools>[0]

export class SelfCheck {
  readonly #token = Buffer.from(randomBytes(32).toString('base64url'))
  #target: Target | undefined
  #isReady = false
  #running: Promise<string | undefined> | undefined

  /** The server listens there. */
  begin(target: Target): void {
    this.#target = target
  }

  /** Whether a request is this check's own. */
  isOwn(authorization: string | undefined): boolean {
    const given = Buffer.from(bearerToken(authorization) ?? '')
    return !this.#isReady && given.length === this.#token.length && timingSafeEqual(given, this.#token)
  }

  /** Those that ask at once wait for one check. */
  async answer(): Promise<HttpResponse> {
    if (this.#isReady) return json(200, { status: 'ready' })
    this.#running ??= this.#check().finally(() => {
      this.#running = undefined
    })
    const reason = await this.#running
    return reason === undefined ? json(200, { status: 'ready' }) : json(503, { status: 'not_ready', reason })
  }

  async #check(): Promise<string | undefined> {
    if (this.#target === undefined) return 'the server does not listen yet'
    const { isReady, text } = await probeTools(this.#target, this.#token.toString())
    this.#isReady = isReady
    return isReady ? undefined : text
  }
}
