/** Asks for a password: at a terminal without showing it, twice; from a pipe by its first line. */
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { UsageError } from './command.ts'

/** Standard input, as far as it is needed. */
export type PasswordInput = Readable & { readonly isTTY?: boolean; setRawMode?(isRaw: boolean): unknown }

const interrupt = '\u0003'
const endOfInput = '\u0004'
const mostCharacters = 4_096

function readHidden(input: PasswordInput, output: Writable, prompt: string): Promise<string> {
  output.write(prompt)
  input.setRawMode?.(true)
  input.setEncoding('utf8')
  input.resume()
  return new Promise((resolve, reject) => {
    let typed: readonly string[] = []
    const end = (finish: () => void) => {
      input.off('data', onData)
      input.setRawMode?.(false)
      input.pause()
      output.write('\n')
      finish()
    }
    const onData = (text: string) => {
      for (const character of text) {
        if (character === '\r' || character === '\n') return end(() => resolve(typed.join('')))
        if (character === interrupt || character === endOfInput) return end(() => reject(new UsageError('no password')))
        if (character === '\u007f' || character === '\b') typed = typed.slice(0, -1)
        else if (character >= ' ' && typed.length < mostCharacters) typed = [...typed, character]
      }
    }
    input.on('data', onData)
  })
}

async function firstLine(input: Readable): Promise<string> {
  const lines = createInterface({ input, terminal: false })
  for await (const line of lines) return line
  throw new UsageError('no password: it is read from the terminal, from standard input or from -password')
}

/** @throws UsageError */
export async function askPassword(input: PasswordInput, output: Writable): Promise<string> {
  if (input.isTTY !== true) return await firstLine(input)
  const password = await readHidden(input, output, 'Password: ')
  if ((await readHidden(input, output, 'Once more: ')) === password) return password
  throw new UsageError('the two passwords differ')
}
