/**
 * The log output of a service. Writes all lines of one event loop turn together, since a write for each line costs more
 * than creating the line.
 */
import { type DestinationStream, pino } from 'pino'

type Destination = { write(text: string): unknown; flushSync(): void }

/**
 * Writes lines at the end of the turn, and at the latest when the process ends. If a signal cannot be handled
 * (SIGKILL), the lines of one turn are lost. They are also lost at an abrupt exit while the log reader is slow: a
 * pending write does not keep the process running.
 */
export function bufferedLines(destination: Destination, onExit: (listener: () => void) => void): DestinationStream {
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

/** Standard error, without a buffer. */
export const logLines = (): DestinationStream =>
  bufferedLines(pino.destination({ dest: 2, sync: false }), listener => process.on('exit', listener))
