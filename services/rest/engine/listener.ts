/**
 * Hears when the database wants to be read again: NOTIFY on the configured channel, and, where asked, changes of the catalogue. After a connection was lost, anything may have
 * been missed.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Logger } from 'pino'
import type { Address } from '../../postgres/address.ts'
import { connect } from '../../postgres/connect.ts'
import { quoteIdentifier } from '../../postgres/quote.ts'
import { nextBackoff } from '../../process/backoff.ts'
import { type Version, versionOf, versionStatement } from '../../schema-cache/version.ts'

type Heard = 'reload schema' | 'reload config' | 'reconnected'

type ListenerOptions = {
  readonly address: Address
  readonly channel: string
  /** Between looks whether the catalogue has changed; 0: none. */
  readonly watchIntervalMs: number
  readonly logger: Logger
  readonly onHeard: (heard: Heard) => void
  /** Called when the connection is lost, or cannot be made. */
  readonly onDisconnected: () => void
}

export class Listener {
  readonly #options: ListenerOptions
  #client: pg.Client | undefined
  #timer: NodeJS.Timeout | undefined
  #backoffMs = nextBackoff(0)
  #isStopped = false
  #hasListened = false
  #isListening = false

  constructor(options: ListenerOptions) {
    this.#options = options
  }

  get isListening(): boolean {
    return this.#isListening
  }

  async start(): Promise<void> {
    if (this.#isStopped) return
    const { address, channel, logger, onHeard, onDisconnected } = this.#options
    let client: pg.Client | undefined
    let isOver = false
    const again = (error: Error | undefined) => {
      if (isOver) return
      isOver = true
      this.#isListening = false
      client?.end().catch(() => {})
      if (this.#isStopped) return
      onDisconnected()
      logger.warn(
        { reason: error?.message },
        `not listening on ${channel}, trying again in ${this.#backoffMs / 1_000} s`,
      )
      this.#timer = setTimeout(() => void this.start(), this.#backoffMs)
      this.#backoffMs = nextBackoff(this.#backoffMs)
    }
    try {
      client = await connect(address)
      this.#client = client
      if (this.#isStopped) return this.stop()
      client.on('error', again)
      client.on('end', () => again(undefined))
      client.on('notification', ({ payload = '' }) => {
        if (payload === '' || payload === 'reload schema') onHeard('reload schema')
        if (payload === '' || payload === 'reload config') onHeard('reload config')
      })
      await client.query(`LISTEN ${quoteIdentifier(channel)}`)
      this.#backoffMs = nextBackoff(0)
      this.#isListening = true
      if (this.#hasListened) onHeard('reconnected')
      this.#hasListened = true
      void this.#watchCatalogue(client).catch(again)
    } catch (error) {
      again(error instanceof Error ? error : new Error(String(error)))
    }
  }

  /**
   * Ends when another connection has taken the place of this one. The schema is read again after the first look: what was read before may be
   * older. @throws Error where the connection or the statement fails
   */
  async #watchCatalogue(client: pg.Client): Promise<void> {
    const { watchIntervalMs, onHeard } = this.#options
    let known: Version | undefined
    while (watchIntervalMs > 0 && !this.#isStopped && this.#client === client && this.#isListening) {
      const { text, values = [] } = versionStatement(known)
      const before = known
      known = versionOf(await client.query({ text, values: [...values], rowMode: 'array' }), before)
      if (known.fingerprint !== before?.fingerprint) onHeard('reload schema')
      await sleep(watchIntervalMs, undefined, { ref: false })
    }
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
    this.#client?.end().catch(() => {})
  }
}
