/** The response to a call in what an MCP server sent: one JSON message, or a stream of events. Pure. */
import { isRecord } from '../../values/record.ts'

/** The `data` of each event (WHATWG HTML, server-sent events). */
const eventsIn = (text: string): string[] =>
  text
    .replaceAll(/\r\n?/g, '\n')
    .split(/\n{2,}/)
    .map(event =>
      event
        .split('\n')
        .filter(line => line.startsWith('data:'))
        .map(line => line.slice('data:'.length).replace(/^ /, ''))
        .join('\n'),
    )

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Undefined if it nests too deep to be written again. */
function written(value: unknown): string | undefined {
  try {
    return JSON.stringify(value)
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

/** The result, or `{error}`, as JSON; undefined if there is no response to this request. */
export function resultOf(text: string, id: string): string | undefined {
  const whole = parsed(text)
  for (const message of whole === undefined ? eventsIn(text).map(parsed) : [whole]) {
    if (!isRecord(message) || (message.id !== id && message.id !== null)) continue
    if ('result' in message) return written(message.result)
    if ('error' in message) return written({ error: message.error })
  }
  return undefined
}
