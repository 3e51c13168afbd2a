/** Runs system programs that create, grow and mount file systems. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const execute = promisify(execFile)
const timeoutMs = 10 * 60_000

/** @returns standard output. @throws with the program's error output */
export async function run(program: string, ...args: string[]): Promise<string> {
  try {
    return (await execute(program, args, { timeout: timeoutMs })).stdout
  } catch (cause) {
    const stderr = cause instanceof Error && 'stderr' in cause ? String(cause.stderr).trim() : ''
    const output = stderr || (cause instanceof Error ? cause.message : String(cause))
    throw new Error(`${program} failed: ${output.slice(0, 1000)}`, { cause })
  }
}
