/**
 * One stream of events, in the format of Server-Sent Events (https://html.spec.whatwg.org/#server-sent-events). Several
 * changes of one object within a second become one event. A client that reads slowly receives only the last change of
 * each object. If too many objects have changed, the client receives `refresh` instead.
 */
import { Readable } from 'node:stream'
import type { Change } from './schema.ts'

export type EventStream = {
  readable: Readable
  send(change: Change): void
  /** Sends a comment, so that proxies keep the connection. Closes the connection if the client does not read. */
  beat(): void
  /** Ends the stream cleanly. The client then connects again. */
  end(): void
}

/** How long changes are collected: before the first event, and between two later events. */
const firstMs = 50
const intervalMs = 1_000
/** The maximum number of waiting changes. Together they take at most about 100 KiB. */
const mostWaiting = 500
/** The maximum bytes that wait for the connection, in addition to the kernel's buffer. */
const highWaterMark = 16 * 1024
/** How many beats a client may miss. This is at least half a minute. */
const missedBeats = 2
/** After how long a client connects again. */
const retryMs = 2_000

const refresh = 'event: refresh\ndata: {}\n\n'
const textOf = (change: Change): string => `event: change\ndata: ${JSON.stringify(change)}\n\n`

/** Calls `closed` once, whichever side ends the stream. */
export function createEventStream(closed: () => void): EventStream {
  const waiting = new Map<string, Change>()
  let isIncomplete = false
  let timer: NodeJS.Timeout | undefined
  let isFree = true
  let missed = 0
  let isEnded = false

  const readable = new Readable({
    highWaterMark,
    read() {
      isFree = true
      missed = 0
      schedule(firstMs)
    },
    destroy(error, done) {
      clearTimeout(timer)
      waiting.clear()
      closed()
      done(error)
    },
  })

  const push = (text: string): void => {
    isFree = readable.push(text)
  }

  function schedule(ms: number): void {
    if (isFree && !isEnded && (waiting.size > 0 || isIncomplete)) timer ??= setTimeout(flush, ms)
  }

  function flush(): void {
    timer = undefined
    if (!isFree || isEnded || readable.destroyed || (waiting.size === 0 && !isIncomplete)) return
    const text = isIncomplete ? refresh : [...waiting.values()].map(textOf).join('')
    waiting.clear()
    isIncomplete = false
    // Until the timer ends, further changes are only collected.
    timer = setTimeout(flush, intervalMs)
    push(text)
  }

  push(`retry: ${retryMs}\n${refresh}`)

  return {
    readable,
    send(change) {
      if (isEnded || readable.destroyed || isIncomplete) return
      waiting.set(`${change.kind} ${change.id}`, change)
      if (waiting.size > mostWaiting) {
        waiting.clear()
        isIncomplete = true
      }
      schedule(firstMs)
    },
    beat() {
      if (isEnded || readable.destroyed) return
      if (isFree) return push(': \n\n')
      missed++
      if (missed >= missedBeats) readable.destroy()
    },
    end() {
      // The client did not read the end of the stream.
      if (isEnded) return void readable.destroy()
      isEnded = true
      clearTimeout(timer)
      readable.push(null)
    },
  }
}
