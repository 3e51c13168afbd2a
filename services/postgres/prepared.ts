/**
 * The prepared statements of one connection. Their number and length are limited, and names are never reused. Unused
 * statements are closed, even if an error skipped the close.
 */
import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { MessageWriter } from '../../wire/messages.ts'

/** The maximum prepared statements on a connection. */
const maximumPrepared = 300
/** The maximum total text in characters. Postgres needs about fifty times the length of a statement. */
const maximumPreparedText = 524_288

/** The Parse and Close messages of a run that Postgres has not confirmed. */
export type Changes = { readonly preparing: { text: string; name: string }[]; readonly closing: string[] }

export class PreparedStatements {
  /** The names that the next run closes. */
  readonly #surplus: string[] = []
  /** The names by text. */
  readonly #known = new LRUCache<string, string>({
    max: maximumPrepared,
    maxSize: maximumPreparedText,
    // A size of 0 is not allowed.
    sizeCalculation: (_, text) => text.length + 1,
    dispose: name => this.#surplus.push(name),
  })
  /** A pooler may share a session among clients, so a prepared name must be unique among all clients. */
  readonly #prefix = `s${randomBytes(8).toString('hex')}_`
  #names = 0

  /** Starts a run: closes surplus statements. */
  begin(writer: MessageWriter): Changes {
    const closing = this.#surplus.splice(0)
    for (const name of closing) writer.close(name)
    return { preparing: [], closing }
  }

  /** Returns the name to bind. Prepares the statement if it is unknown. */
  use(text: string, isCached: boolean, writer: MessageWriter, { preparing }: Changes): string {
    const canBeCached = isCached && text.length < maximumPreparedText
    const known = canBeCached ? this.#known.get(text) : undefined
    if (known !== undefined) return known
    const name = canBeCached ? `${this.#prefix}${++this.#names}` : ''
    writer.parse(name, text)
    preparing.push({ text, name })
    return name
  }

  /** Postgres sent ParseComplete. */
  prepared({ preparing }: Changes): void {
    const made = preparing.shift()
    if (made === undefined || made.name === '') return
    if (this.#known.has(made.text)) this.#surplus.push(made.name)
    else this.#known.set(made.text, made.name)
  }

  /** Postgres sent CloseComplete. */
  closed({ closing }: Changes): void {
    closing.shift()
  }

  /** Ends a run. The next run repeats the closes that were not confirmed. */
  end({ closing }: Changes): void {
    this.#surplus.push(...closing)
  }
}
