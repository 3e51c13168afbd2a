/**
 * The content of HAProxy's maps, as pushed over one connection. Every method throws RefusedError if the connection has
 * ended, and (except `endHttps`) after an unexpected answer.
 */
import { type HttpEndpoints, httpContentOf, planHttpMaps } from './http-maps.ts'
import { httpsFrontendName } from './https.ts'
import { contentOf, deadlineContent, type Endpoints, planMaps, setDeadline } from './maps.ts'
import { drainingKey, type Paths } from './paths.ts'
import { answerOf, expectAnswer, expectDone, replaceMap } from './push.ts'
import type { RuntimeConnection } from './runtime.ts'

type Pushed = { all: boolean; seconds: number }
type State = { endpoints: Endpoints; http: HttpEndpoints | undefined }

export class PushedMaps {
  readonly #connection: RuntimeConnection
  readonly #paths: Paths
  readonly #onPushed: ((push: Pushed) => void) | undefined
  #state: State | undefined
  #deadline: number | undefined
  #draining = false
  #hasEndedHttps = false

  constructor(connection: RuntimeConnection, paths: Paths, onPushed: ((push: Pushed) => void) | undefined) {
    this.#connection = connection
    this.#paths = paths
    this.#onPushed = onPushed
  }

  check(): Promise<void> {
    return expectAnswer(this.#connection)
  }

  async setDeadline(seconds: number): Promise<void> {
    if (seconds === this.#deadline) return
    if (this.#deadline === undefined) await replaceMap(this.#connection, deadlineContent(this.#paths, seconds))
    else await expectDone(this.#connection, [setDeadline(this.#paths, seconds)])
    this.#deadline = seconds
  }

  /**
   * Makes HAProxy send `Connection: close` with each HTTPS response. Cannot be undone. Must be called after
   * `setDeadline`, whose first call replaces the map `state`.
   */
  async setDraining(): Promise<void> {
    if (this.#draining) return
    await expectDone(this.#connection, [`add map ${this.#paths.state} ${drainingKey} 1`])
    this.#draining = true
  }

  /**
   * Shuts down the HTTPS listener. HAProxy accepts no new connection, and asks HTTP/2 clients to close theirs at the
   * next request.
   */
  async endHttps(): Promise<void> {
    if (this.#hasEndedHttps) return
    // The answer is not checked, because an earlier connection may already have shut down the frontend.
    await answerOf(this.#connection, `shutdown frontend ${httpsFrontendName}`)
    this.#hasEndedHttps = true
  }

  /** @param http absent if HAProxy has no HTTPS listener */
  async push(endpoints: Endpoints, http: HttpEndpoints | undefined): Promise<void> {
    const began = performance.now()
    const have = this.#state
    if (have === undefined) await this.#replaceAll(endpoints, http)
    else {
      const commands = planMaps(this.#paths, have.endpoints, endpoints)
      if (http !== undefined) commands.push(...planHttpMaps(this.#paths, have.http ?? new Map(), http))
      await expectDone(this.#connection, commands)
    }
    this.#state = { endpoints, http }
    this.#onPushed?.({ all: have === undefined, seconds: (performance.now() - began) / 1000 })
  }

  async #replaceAll(endpoints: Endpoints, http: HttpEndpoints | undefined): Promise<void> {
    const contents = contentOf(this.#paths, endpoints)
    if (http !== undefined) contents.push(...httpContentOf(this.#paths, http))
    for (const content of contents) await replaceMap(this.#connection, content)
  }
}
