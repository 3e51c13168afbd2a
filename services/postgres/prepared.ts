/**
 * The statements that one connection keeps prepared. It promises that their number and length have a bound, that no name is given twice, and that a statement which nothing
 * uses any more is closed, even if an error has skipped that.
 */
import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { MessageWriter } from './messages.ts'

/** Statements kept prepared on a connection. */
const maximumPrepared = 300
/** Their text, in characters: Postgres keeps some fifty times the length of a statement. */
const maximumPreparedText = 524_288

/** What a run has sent of preparing and closing, and Postgres has not confirmed. */
export type Changes = { readonly preparing: { text: string; name: string }[]; readonly closing: string[] }

export class PreparedStatements {
  /** Names that the next run closes. */
  readonly #surplus: string[] = []
  /** Names by text. */
  readonly #known = new LRUCache<string, string>({
    max: maximumPrepared,
    maxSize: maximumPreparedText,
    // A size of 0 is not allowed.
    sizeCalculation: (_, text) => text.length + 1,
    dispose: name => this.#surplus.push(name),
  })
  /** A pooler may give several clients one session: a name that one prepares must be unique among all. */
  readonly #prefix = `s${randomBytes(8).toString('hex')}_`
  #names = 0

  /** Begins a run: closes the surplus. */
  begin(writer: MessageWriter): Changes {
    const closing = this.#surplus.splice(0)
    for (const name of closing) writer.close(name)
    return { preparing: [], closing }
  }

  /** The name by which a statement can be bound. Prepares the statement if it is not known. */
  use(text: string, isKept: boolean, writer: MessageWriter, { preparing }: Changes): string {
    const canBeKept = isKept && text.length < maximumPreparedText
    const known = canBeKept ? this.#known.get(text) : undefined
    if (known !== undefined) return known
    const name = canBeKept ? `${this.#prefix}${++this.#names}` : ''
    writer.parse(name, text)
    preparing.push({ text, name })
    return name
  }

  /** ParseComplete. */
  prepared({ preparing }: Changes): void {
    const made = preparing.shift()
    if (made === undefined || made.name === '') return
    if (this.#known.has(made.text)) this.#surplus.push(made.name)
    else this.#known.set(made.text, made.name)
  }

  /** CloseComplete. */
  closed({ closing }: Changes): void {
    closing.shift()
  }

  /** Ends a run. The next one repeats the closes that were not confirmed. */
  end({ closing }: Changes): void {
    this.#surplus.push(...closing)
  }
}
