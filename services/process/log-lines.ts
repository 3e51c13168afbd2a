/**
 * The log output of a service: the lines of one event loop turn in one write, since a write per line costs more than
 * creating the line.
 */
import { type DestinationStream, pino } from 'pino'

type Destination = { write(text: string): unknown; flushSync(): void }

/**
 * Lines are written at the end of the turn, and at the latest when the process ends. A signal that cannot be handled
 * (SIGKILL) loses the lines of one turn. So does an abrupt exit while the log reader is slow: a pending write does not
 * keep the process alive.
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

/** Standard error, unbuffered. */
export const logLines = (): DestinationStream =>
  bufferedLines(pino.destination({ dest: 2, sync: false }), listener => process.on('exit', listener))
