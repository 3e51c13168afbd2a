/**
 * A second process of a foreign tool server, for requests of 2026-07-28, started by the first such request. The first
 * message on stdio fixes the era of a process, and the first process received the bridge's `initialize`. Without the
 * second one, a client of 2026-07-28 could not use a foreign server that serves both eras.
 */
import type { Logger } from 'pino'
import { notRunning } from './errors.ts'
import { type Link, makeLink } from './link.ts'
import type { SubprocessSettings } from './subprocess.ts'

const checkIntervalMs = 20
const mostChecks = 50

export class ModernProcess {
  readonly #settings: SubprocessSettings
  readonly #logger: Logger
  #link: Link | undefined

  constructor(settings: SubprocessSettings, logger: Logger) {
    this.#settings = settings
    this.#logger = logger
  }

  /** @throws BridgeRefusal with 503 if it does not run */
  async link(): Promise<Link> {
    if (this.#link === undefined) {
      const events = { onUp: () => {}, onDown: () => {}, onUnaddressed: () => {} }
      this.#link = makeLink(this.#settings, events, this.#logger)
      this.#link.subprocess.start()
    }
    for (let checks = 0; checks < mostChecks && this.#link.subprocess.state === 'restarting'; checks += 1)
      await new Promise(resolve => setTimeout(resolve, checkIntervalMs))
    if (this.#link.subprocess.state !== 'running') throw notRunning()
    return this.#link
  }

  /** undefined: no request has needed it yet. */
  get current(): Link | undefined {
    return this.#link
  }

  async stop(): Promise<void> {
    await this.#link?.subprocess.stop()
  }
}
