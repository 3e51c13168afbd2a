/**
 * The parameters of one statement, numbered as they are added. Every value goes as text and is cast in the statement, so its type never depends on what stands beside it. `before`: how many other
 * parameters the statement has, with the lower numbers.
 */
export class Parameters {
  readonly values: string[] = []
  readonly #before: number

  constructor(before = 0) {
    this.#before = before
  }

  /** Returns the place of the value in the text, such as `$3::integer`. */
  add(value: string, type: string): string {
    this.values.push(value)
    return `$${this.#before + this.values.length}::${type}`
  }
}
