/** Where a service writes its log: the lines of one turn of the event loop in one write, since a write for each line costs more than making it. */
import { type DestinationStream, pino } from 'pino'

type Destination = { write(text: string): unknown; flushSync(): void }

/**
 * Lines go out at the end of the turn, and at the latest when the process ends. What a signal ends at once (SIGKILL) loses the lines of one turn. So does an abrupt exit while the reader of the
 * log is slow: a write that is under way does not keep the process.
 */
export function linesOfTurns(destination: Destination, onExit: (listener: () => void) => void): DestinationStream {
  let lines = ''
  const send = () => {
    const text = lines
    lines = ''
    if (text !== '') destination.write(text)
  }
  onExit(() => {
    send()
    destination.flushSync()
  })
  return {
    write: line => {
      if (lines === '') setImmediate(send)
      lines += line
    },
  }
}

/** Standard error, of which nothing waits. */
export const logLines = (): DestinationStream =>
  linesOfTurns(pino.destination({ dest: 2, sync: false }), listener => process.on('exit', listener))
