/**
 * The parameters of one statement, numbered in the order of their addition. Every value is sent as text, and the
 * statement casts it, so that its type never depends on its context. `before`: how many other parameters with lower
 * numbers the statement has.
 */
export class Parameters {
  readonly values: string[] = []
  readonly #before: number

  constructor(before = 0) {
    this.#before = before
  }

  /** Returns the reference to the value, for example `$3::integer`. */
  add(value: string, type: string): string {
    this.values.push(value)
    return `$${this.#before + this.values.length}::${type}`
  }
}
