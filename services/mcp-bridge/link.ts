/** One subprocess and its exchange: parses lines as messages, and drops lines that are not messages. */
import type { Logger } from 'pino'
import { type NotificationMessage, readMessage } from '../mcp-protocol/json-rpc.ts'
import { Exchange } from './exchange.ts'
import { Subprocess, type SubprocessSettings } from './subprocess.ts'

type LinkEvents = {
  readonly onUp: () => void
  readonly onDown: () => void
  readonly onUnaddressed: (message: NotificationMessage) => void
}

export type Link = { readonly subprocess: Subprocess; readonly exchange: Exchange }

export function makeLink(settings: SubprocessSettings, events: LinkEvents, logger: Logger): Link {
  const exchange = new Exchange({
    send: message => subprocess.send(JSON.stringify(message)),
    onUnaddressed: events.onUnaddressed,
  })
  const receive = (line: string) => {
    const message = readMessage(parse(line))
    if (message.kind === 'invalid')
      logger.warn({ problem: message.problem }, 'the tool server wrote a line that is not a message')
    else exchange.receive(message)
  }
  const subprocess = new Subprocess(
    settings,
    {
      onLine: receive,
      onUp: events.onUp,
      onDown: () => {
        exchange.failAll()
        events.onDown()
      },
    },
    logger,
  )
  return { subprocess, exchange }
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return undefined
  }
}
