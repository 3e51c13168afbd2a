/**
 * Requests a reload when the database changes: on NOTIFY on the configured channel and, if configured, when the catalog
 * changes. After a lost connection it also requests a reload, because it may have missed changes.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Logger } from 'pino'
import type { Address } from '../../postgres/address.ts'
import { connect } from '../../postgres/connect.ts'
import { quoteIdentifier } from '../../postgres/quote.ts'
import { nextBackoff, startupBackoff } from '../../process/backoff.ts'
import { type Version, versionOf, versionStatement } from '../../schema-cache/version.ts'

type Notice = 'reload schema' | 'reload config' | 'reconnected'

type ListenerOptions = {
  readonly address: Address
  readonly channel: string
  /** Interval between checks of the catalog; 0: none. */
  readonly watchIntervalMs: number
  readonly logger: Logger
  readonly onNotice: (notice: Notice) => void
  /** Called when the connection is lost or cannot be opened. */
  readonly onDisconnected: () => void
}

export class Listener {
  readonly #options: ListenerOptions
  #client: pg.Client | undefined
  #timer: NodeJS.Timeout | undefined
  readonly #begunAt = performance.now()
  #backoffMs = startupBackoff(0, 0)
  #retriedFor: string | undefined
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
    const { address, channel, logger, onNotice, onDisconnected } = this.#options
    let client: pg.Client | undefined
    let isOver = false
    const again = (error: Error | undefined) => {
      if (isOver) return
      isOver = true
      this.#isListening = false
      client?.end().catch(() => {})
      if (this.#isStopped) return
      onDisconnected()
      const backoffMs = this.#backoffMs
      if (backoffMs >= 1_000 || error?.message !== this.#retriedFor)
        logger.warn({ reason: error?.message }, `not listening on ${channel}, retrying in ${backoffMs / 1_000} s`)
      this.#retriedFor = error?.message
      this.#timer = setTimeout(() => void this.start(), backoffMs)
      this.#backoffMs = this.#hasListened
        ? nextBackoff(backoffMs)
        : startupBackoff(performance.now() - this.#begunAt, backoffMs)
    }
    try {
      client = await connect(address)
      this.#client = client
      if (this.#isStopped) return this.stop()
      client.on('error', again)
      client.on('end', () => again(undefined))
      client.on('notification', ({ payload = '' }) => {
        if (payload === '' || payload === 'reload schema') onNotice('reload schema')
        if (payload === '' || payload === 'reload config') onNotice('reload config')
      })
      await client.query(`LISTEN ${quoteIdentifier(channel)}`)
      this.#backoffMs = nextBackoff(0)
      this.#isListening = true
      this.#retriedFor = undefined
      if (this.#hasListened) onNotice('reconnected')
      this.#hasListened = true
      void this.#watchCatalogue(client).catch(again)
    } catch (error) {
      again(error instanceof Error ? error : new Error(String(error)))
    }
  }

  /**
   * Ends when another connection has replaced this one. Reloads the schema after the first check, since the loaded
   * schema may be older. @throws Error if the connection or the statement fails
   */
  async #watchCatalogue(client: pg.Client): Promise<void> {
    const { watchIntervalMs, onNotice } = this.#options
    let known: Version | undefined
    while (watchIntervalMs > 0 && !this.#isStopped && this.#client === client && this.#isListening) {
      const { text, values = [] } = versionStatement(known)
      const before = known
      known = versionOf(await client.query({ text, values: [...values], rowMode: 'array' }), before)
      if (known.fingerprint !== before?.fingerprint) onNotice('reload schema')
      await sleep(watchIntervalMs, undefined, { ref: false })
    }
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
    this.#client?.end().catch(() => {})
  }
}
