/** The streams and the environment of a command. Most tests pass their own streams, and start no process. */
import type { Writable } from 'node:stream'
import { styleText } from 'node:util'
import type { HiddenInput } from '../server/hidden-input.ts'

type Output = Writable & { readonly isTTY?: boolean; readonly columns?: number }

export type Io = {
  environment: NodeJS.ProcessEnv
  directory: string
  input: HiddenInput
  output: Output
  errors: Output
  /** Ends the process at once; absent in tests. */
  exit?: (code: number) => void
}

export const processIo = (): Io => ({
  environment: process.env,
  directory: process.cwd(),
  input: process.stdin,
  output: process.stdout,
  errors: process.stderr,
  exit: code => process.exit(code),
})

export const isTerminal = (stream: { readonly isTTY?: boolean }): boolean => stream.isTTY === true

type Style = Parameters<typeof styleText>[0]

/** Returns a function that adds colours on a terminal, unless NO_COLOR (no-color.org) is set or TERM is `dumb`. */
export function styleOf({ environment }: Io, stream: Output): (style: Style, text: string) => string {
  const hasColours = isTerminal(stream) && !environment.NO_COLOR && environment.TERM !== 'dumb'
  return (style, text) => (hasColours ? styleText(style, text, { validateStream: false }) : text)
}
