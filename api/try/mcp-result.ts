/** The response to a call in what an MCP server sent: one JSON message, or a stream of events. Pure. */
import { isRecord } from '../../values/record.ts'

/** The `data` of each event (WHATWG HTML, server-sent events). */
const eventsIn = (text: string): string[] =>
  text.split(/(?:\r\n|\r|\n){2,}/).map(event =>
    event
      .split(/\r\n|\r|\n/)
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

/** The result, or `{error}`, as JSON; undefined if there is no response to this request. */
export function resultOf(text: string, id: string): string | undefined {
  const whole = parsed(text)
  for (const message of whole === undefined ? eventsIn(text).map(parsed) : [whole]) {
    if (!isRecord(message) || (message.id !== id && message.id !== null)) continue
    if ('result' in message) return JSON.stringify(message.result)
    if ('error' in message) return JSON.stringify({ error: message.error })
  }
  return undefined
}
