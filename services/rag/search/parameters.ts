/**
 * The parameters of one statement, numbered as they are added. Every value is sent as text and is cast in the
 * statement, so that its type never depends on its context. `before`: how many other parameters the statement has, with
 * the lower numbers.
 */
export class Parameters {
  readonly values: string[] = []
  readonly #before: number

  constructor(before = 0) {
    this.#before = before
  }

  /** Returns the reference to the value, such as `$3::integer`. */
  add(value: string, type: string): string {
    this.values.push(value)
    return `$${this.#before + this.values.length}::${type}`
  }
}
