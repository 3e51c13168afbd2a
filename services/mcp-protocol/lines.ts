/**
 * Splits bytes into lines. Chunk boundaries do not matter. Does not buffer a line that is too long, and reports it
 * once, as soon as it exceeds the limit.
 */

type Line = { readonly kind: 'line'; readonly bytes: Buffer } | { readonly kind: 'too long' }

const newline = 0x0a

export function lineReader(maximumBytes: number): (chunk: Buffer) => Line[] {
  let parts: Buffer[] = []
  let length = 0

  return chunk => {
    const lines: Line[] = []

    const add = (bytes: Buffer): void => {
      const wasTooLong = length > maximumBytes
      length += bytes.length
      if (length <= maximumBytes) {
        if (bytes.length > 0) parts.push(bytes)
      } else if (!wasTooLong) {
        parts = []
        lines.push({ kind: 'too long' })
      }
    }

    const end = (): void => {
      const [first = Buffer.alloc(0)] = parts
      if (length <= maximumBytes) lines.push({ kind: 'line', bytes: parts.length > 1 ? Buffer.concat(parts) : first })
      parts = []
      length = 0
    }

    let from = 0
    for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, from)) {
      add(chunk.subarray(from, at))
      end()
      from = at + 1
    }
    add(chunk.subarray(from))
    return lines
  }
}
