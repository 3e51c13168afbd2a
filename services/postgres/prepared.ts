/**
 * The statements that one connection keeps prepared. It promises that what is prepared has a bound, that no name is given twice, and that a statement which nothing uses any more is closed,
 * even where an error has skipped that.
 */
import { randomBytes } from 'node:crypto'
import type { MessageWriter } from './messages.ts'

/** Statements kept prepared on a connection; the one unused for longest makes room. */
const maximumPrepared = 300
/** And their text, in characters: what Postgres keeps of a statement takes some fifty times its length. */
const maximumPreparedText = 524_288

/** What a run has sent of preparing and closing, and Postgres has not confirmed. */
export type Changes = { readonly preparing: { text: string; name: string }[]; readonly closing: string[] }

export class PreparedStatements {
  readonly #known = new Map<string, string>()
  #length = 0
  /** Names of statements that nothing uses any more. */
  readonly #surplus: string[] = []
  /** Behind a pooler, connections come by the sessions of others: what one has prepared must have no name that another gives to something else. */
  readonly #prefix = `s${randomBytes(8).toString('hex')}_`
  #names = 0

  /** Begins a run, by closing what is in surplus. */
  begin(writer: MessageWriter): Changes {
    const closing = this.#surplus.splice(0)
    for (const name of closing) writer.close(name)
    return { preparing: [], closing }
  }

  /** The name by which a statement can be bound; prepared before, where it was not. */
  use(text: string, isKept: boolean, writer: MessageWriter, changes: Changes): string {
    return isKept && text.length <= maximumPreparedText
      ? this.#kept(text, writer, changes)
      : this.#prepare('', text, writer, changes)
  }

  #prepare(name: string, text: string, writer: MessageWriter, { preparing }: Changes): string {
    writer.parse(name, text)
    preparing.push({ text, name })
    return name
  }

  #kept(text: string, writer: MessageWriter, changes: Changes): string {
    const known = this.#known.get(text)
    if (known !== undefined) {
      // The last one used stands last.
      this.#known.delete(text)
      this.#known.set(text, known)
      return known
    }
    for (const [oldest, unused] of this.#known) {
      if (this.#known.size < maximumPrepared && this.#length + text.length <= maximumPreparedText) break
      this.#known.delete(oldest)
      this.#length -= oldest.length
      changes.closing.push(unused)
      writer.close(unused)
    }
    return this.#prepare(`${this.#prefix}${++this.#names}`, text, writer, changes)
  }

  /** ParseComplete. */
  prepared({ preparing }: Changes): void {
    const made = preparing.shift()
    if (made === undefined || made.name === '') return
    if (this.#known.has(made.text)) this.#surplus.push(made.name)
    else {
      this.#known.set(made.text, made.name)
      this.#length += made.text.length
    }
  }

  /** CloseComplete. */
  closed({ closing }: Changes): void {
    closing.shift()
  }

  /** Ends a run; what it was to close and has not is said again by the next. */
  end({ closing }: Changes): void {
    this.#surplus.push(...closing)
  }
}
