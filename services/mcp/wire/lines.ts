/** Text as lines, however it is cut into chunks. It promises that a line which is too long is never held, and is told as such once. */
import { StringDecoder } from 'node:string_decoder'

type Line = { readonly kind: 'line'; readonly text: string } | { readonly kind: 'too long' }

export function lineReader(maximumBytes: number): (chunk: Buffer) => Line[] {
  const decoder = new StringDecoder('utf8')
  let parts: string[] = []
  let length = 0
  let isTooLong = false

  function add(text: string): void {
    length += text.length
    if (length > maximumBytes) {
      isTooLong = true
      parts = []
    }
    if (!isTooLong) parts.push(text)
  }

  function end(): Line {
    const line: Line = isTooLong ? { kind: 'too long' } : { kind: 'line', text: parts.join('') }
    parts = []
    length = 0
    isTooLong = false
    return line
  }

  return chunk => {
    const [head = '', ...others] = decoder.write(chunk).split('\n')
    const lines: Line[] = []
    add(head)
    for (const text of others) {
      lines.push(end())
      add(text)
    }
    return lines
  }
}
