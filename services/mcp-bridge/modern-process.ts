/**
 * A second process of a foreign tool server, for requests of 2026-07-28. The first such request starts it. On stdio,
 * the first message decides the revisions that a process accepts, and the first process has received the bridge's
 * `initialize`. Without a second process, a client of 2026-07-28 could not use a foreign server that supports old and
 * new revisions.
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

  /** @throws BridgeRefusal with 503 if the process is not running */
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

  /** undefined: no request has needed the process yet. */
  get current(): Link | undefined {
    return this.#link
  }

  async stop(): Promise<void> {
    await this.#link?.subprocess.stop()
  }
}
