/** Reads the configuration file of a service. */
import { readFileSync } from 'node:fs'

/** @throws Error with the file's path and the reason why it cannot be read */
export function readConfigurationFile(path: string): { readonly path: string; readonly text: string } {
  try {
    return { path, text: readFileSync(path, 'utf8') }
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : 'unknown'
    throw new Error(`the configuration file ${path} cannot be read (${code})`, { cause: error })
  }
}
