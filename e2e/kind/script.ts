/** Runs a script's main function. On failure, prints one line and exits with 1. */
import { ImageError } from '../../images/errors.ts'
import { KindError } from './errors.ts'

export const say = (line: string): void => console.log(`kind: ${line}`)

export async function script(main: () => Promise<void>): Promise<void> {
  try {
    await main()
  } catch (error) {
    if (!(error instanceof KindError || error instanceof ImageError)) throw error
    console.error(`kind: ${error.message}`)
    process.exitCode = 1
  }
}
