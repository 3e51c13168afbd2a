/** The parameters of one statement, numbered as they are added. Every value goes as text and is cast in the statement, so its type never depends on what stands beside it. */
export class Parameters {
  readonly values: string[] = []

  /** Returns the place of the value in the text, such as `$3::integer`. */
  add(value: string, type: string): string {
    this.values.push(value)
    return `$${this.values.length}::${type}`
  }
}
