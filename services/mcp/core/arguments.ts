/** A tool refuses the arguments of a call. The message names the argument and the rule. */
export class ArgumentsError extends Error {
  /** Whether an argument has a wrong type, is missing or is unknown. False if a value breaks another rule. */
  readonly isShape: boolean

  constructor(problem: string, isShape: boolean) {
    super(problem)
    this.isShape = isShape
  }
}
