/** Reads a line from a terminal without showing it. */
import type { Readable, Writable } from 'node:stream'
import { UsageError } from './usage-error.ts'

/** The parts of standard input that are used. */
export type HiddenInput = Readable & { readonly isTTY?: boolean; setRawMode?(isRaw: boolean): unknown }

const interrupt = '\u0003'
const endOfInput = '\u0004'

type Question = { prompt: string; what: string; mostCharacters: number }

/** `what` names the missing input if the user ends the input. @throws UsageError */
export function readHidden(input: HiddenInput, output: Writable, question: Question): Promise<string> {
  const { prompt, what, mostCharacters } = question
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
        if (character === interrupt || character === endOfInput) return end(() => reject(new UsageError(`no ${what}`)))
        if (character === '\u007f' || character === '\b') typed = typed.slice(0, -1)
        else if (character >= ' ' && typed.length < mostCharacters) typed = [...typed, character]
      }
    }
    input.on('data', onData)
  })
}
