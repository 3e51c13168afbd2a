/** Counts tool calls and failed tool calls. Failed calls are refused calls, and results with an error. */
export class ToolFigures {
  calls = 0
  failures = 0

  /** Counts a call, and returns its result or throws its error. */
  async count<Result>(call: () => Promise<Result>, hasFailed: (result: Result) => boolean): Promise<Result> {
    this.calls += 1
    try {
      const result = await call()
      if (hasFailed(result)) this.failures += 1
      return result
    } catch (error) {
      this.failures += 1
      throw error
    }
  }
}
