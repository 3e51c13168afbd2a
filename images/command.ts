/** Runs build programs. Their output is written to a log, and the end of the log is shown on failure. */
import { spawn } from 'node:child_process'
import { appendFileSync } from 'node:fs'
import { ImageError } from './errors.ts'

export type Run = (program: string, args: readonly string[], options?: RunOptions) => Promise<string>
type RunOptions = {
  cwd?: string
  env?: NodeJS.ProcessEnv
  input?: string
  timeoutMs?: number
  /** Called with each chunk of standard error. */
  onError?: (text: string) => void
}

const shownLines = 30

/**
 * Resolves with the program's standard output.
 * @throws ImageError if the program fails or is missing; the message has its name and its last lines of output
 */
export const logged =
  (log: string): Run =>
  (program, args, { cwd, env, input = '', timeoutMs = 60 * 60_000, onError } = {}) =>
    new Promise((resolve, reject) => {
      appendFileSync(log, `\n$ ${[program, ...args].join(' ')}\n`)
      const signal = AbortSignal.timeout(timeoutMs)
      const child = spawn(program, args, { cwd, env: env ?? process.env, stdio: 'pipe', signal })
      let output = ''
      let both = ''
      const keep = (chunk: string) => {
        both = (both + chunk).slice(-64 * 1024)
        appendFileSync(log, chunk)
      }
      child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
        output += chunk
        keep(chunk)
      })
      child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
        keep(chunk)
        onError?.(chunk)
      })
      child.stdin.on('error', () => {}).end(input)
      child.on('error', error => {
        const why = signal.aborted
          ? `${program} ${args[0] ?? ''} was stopped, since it had not ended after ${timeoutMs / 1000} s`
          : `cannot run ${program}: ${error.message}`
        reject(new ImageError(why))
      })
      child.on('close', (code, ended) => {
        if (code === 0) return resolve(output)
        const last = both.trimEnd().split('\n').slice(-shownLines).join('\n')
        reject(new ImageError(`${program} ${args[0] ?? ''} failed (${ended ?? code}); full log: ${log}\n${last}`))
      })
    })
