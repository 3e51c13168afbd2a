/** Follows the changes of an account's objects (`GET /events`) while the API streams them. */
import { setTimeout as sleep } from 'node:timers/promises'
import { object, optional, type ShapeType, string } from '../shape.ts'
import { type Api, openStream, readJson } from './call.ts'

const change = object({ kind: string, id: string, database_id: optional(string), status: string })
export type Change = ShapeType<typeof change>

type Following = {
  /** False if no stream is open, or if the API has no streams. The caller must poll then. */
  readonly isLive: boolean
  /** Waits at most `ms` until the stream is live or has failed. */
  opened(ms: number): Promise<void>
  /**
   * Waits at most `ms` until a change arrives. Returns at once if a change has arrived since the previous call, or if
   * no stream is live.
   */
  next(ms: number): Promise<void>
  close(): void
}

/** The pause before the stream is opened again. The API sends the same value in the field `retry`. */
const reopenMs = 2_000
/** The maximum length of an event, in characters. An event `change` has about 200 characters. */
const longestEvent = 65_536

/** Returns the complete events in the text, and the rest of the text. Pure. */
export function parseEvents(text: string): { events: { name: string; data: string }[]; rest: string } {
  const blocks = text.split('\n\n')
  const rest = blocks.pop() ?? ''
  const events = blocks.map(block => {
    const fields = block.split('\n')
    const fieldOf = (field: string) => fields.find(line => line.startsWith(`${field}: `))?.slice(field.length + 2) ?? ''
    return { name: fieldOf('event'), data: fieldOf('data') }
  })
  return { events, rest }
}

/** Follows the changes that `isMeant` selects. `refresh`, the first event of each stream, also counts as a change. */
export function followChanges(present: () => Api, isMeant: (change: Change) => boolean): Following {
  const closing = new AbortController()
  let state: 'opening' | 'live' | 'off' = 'opening'
  let isDue = false
  let wake = () => {}

  function receive({ name, data }: { name: string; data: string }): void {
    const value = name === 'change' ? readJson(data) : undefined
    if (name !== 'refresh' && !(change(value) && isMeant(value))) return
    isDue = true
    wake()
  }

  async function readOne(): Promise<void> {
    let rest = ''
    for await (const part of openStream(present(), '/events', closing.signal)) {
      const parsed = parseEvents(rest + part)
      rest = parsed.rest
      if (rest.length > longestEvent) throw new Error('an event is too long')
      if (parsed.events.length > 0) state = 'live'
      for (const event of parsed.events) receive(event)
    }
  }

  async function readAll(): Promise<void> {
    try {
      for (;;) {
        await readOne()
        if (state !== 'live') throw new Error('the stream has no events')
        // The API ends a stream without an error when it has to verify the token again.
        state = 'opening'
        wake()
        await sleep(reopenMs, undefined, { signal: closing.signal })
      }
    } catch {
      // The API refused the stream, the stream failed, or the caller called `close`.
      state = 'off'
      wake()
    }
  }
  void readAll()

  async function until(isDone: () => boolean, ms: number): Promise<void> {
    const deadline = Date.now() + ms
    while (!isDone() && Date.now() < deadline) {
      const waiting = new AbortController()
      const woken = new Promise<void>(resolve => {
        wake = resolve
      })
      const late = sleep(deadline - Date.now(), undefined, { signal: waiting.signal }).catch(() => {})
      await Promise.race([woken, late])
      waiting.abort()
    }
  }

  return {
    get isLive() {
      return state === 'live'
    },
    opened: ms => until(() => state !== 'opening', ms),
    async next(ms) {
      await until(() => isDue || state !== 'live', ms)
      isDue = false
    },
    close: () => closing.abort(),
  }
}
