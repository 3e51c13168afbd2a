/** Splits bytes into lines, however they are cut into chunks. A line that is too long is never held and is reported once. */
import { messageTextOf } from './message-text.ts'

/** `text` is undefined if the line is not UTF-8. */
type Line = { readonly kind: 'line'; readonly text: string | undefined } | { readonly kind: 'too long' }

const newline = 0x0a

export function lineReader(maximumBytes: number): (chunk: Buffer) => Line[] {
  let parts: Buffer[] = []
  let length = 0

  function add(bytes: Buffer): void {
    length += bytes.length
    if (length > maximumBytes) parts = []
    else if (bytes.length > 0) parts.push(bytes)
  }

  function end(): Line {
    const [first = Buffer.alloc(0)] = parts
    const line: Line =
      length > maximumBytes
        ? { kind: 'too long' }
        : { kind: 'line', text: messageTextOf(parts.length > 1 ? Buffer.concat(parts) : first) }
    parts = []
    length = 0
    return line
  }

  return chunk => {
    const lines: Line[] = []
    let from = 0
    for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, from)) {
      add(chunk.subarray(from, at))
      lines.push(end())
      from = at + 1
    }
    add(chunk.subarray(from))
    return lines
  }
}
