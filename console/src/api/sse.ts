/** Parses Server-Sent Events from chunks of text. Pure. */
type ServerEvent = { event: string; data: string }

/** The maximum length of a line. Lines that the API sends are shorter. */
const longestLine = 64 * 1024

/** Returns a parser. Each call takes the next chunk, and returns the events that the chunk completes. */
export function createParser(): (chunk: string) => ServerEvent[] {
  let rest = ''
  let event = ''
  let data: string[] = []
  /** Whether the parser discards the rest of a line that is too long. */
  let isDiscarding = false
  const take = (line: string): ServerEvent | undefined => {
    if (line === '') {
      const complete = data.length > 0 ? { event: event === '' ? 'message' : event, data: data.join('\n') } : undefined
      event = ''
      data = []
      return complete
    }
    const colon = line.indexOf(':')
    // The line is a comment. The server sends comments to keep the connection open.
    if (colon === 0) return undefined
    const field = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (field === 'event') event = value
    if (field === 'data') data.push(value)
    return undefined
  }
  return chunk => {
    // A `\r` at the end may be the first half of a line end.
    const text = rest + chunk
    const pending = text.endsWith('\r') ? 1 : 0
    const lines = text.slice(0, text.length - pending).split(/\r\n|\n|\r/)
    rest = lines.pop() ?? ''
    if (isDiscarding && lines.length > 0) {
      lines.shift()
      isDiscarding = false
    }
    if (rest.length > longestLine) isDiscarding = true
    if (isDiscarding) rest = ''
    rest += text.slice(text.length - pending)
    return lines.flatMap(line => take(line) ?? [])
  }
}
