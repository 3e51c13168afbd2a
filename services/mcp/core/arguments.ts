/** Arguments that a tool refuses. The message names the argument and the rule. */
export class ArgumentsError extends Error {
  /** A wrong type, a missing argument or an unknown one, not a value that breaks a rule. */
  readonly isShape: boolean

  constructor(problem: string, isShape: boolean) {
    super(problem)
    this.isShape = isShape
  }
}
