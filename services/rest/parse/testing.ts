/** For tests of parsing and planning: what a refusal says. */
import { RestError } from '../errors.ts'

/** The RestError that this throws; anything else that it throws goes through, and that it throws nothing is an error. */
export function refusal(run: () => unknown): RestError {
  try {
    run()
  } catch (error) {
    if (error instanceof RestError) return error
    throw error
  }
  throw new Error('nothing was refused')
}
