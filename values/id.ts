/**
 * Ids of new objects: UUIDs of version 7 (RFC 9562, section 5.7), which begin with the millisecond of their creation.
 * So objects that were created within one second have an order, although a creationTimestamp has only seconds.
 *
 * Ids of one source always increase. Within a millisecond, the 12 bits after the time are a counter with a random
 * start. When the counter overflows, the next millisecond is used early. The first 16 digits, which name children, are
 * unique among ids of the same source.
 */
import { randomBytes } from 'node:crypto'

/** Returns another id at each call. */
export type IdSource = () => string

/**
 * If the clock is set back by less than this, ids continue from the previous time. If it is set back by more, the new
 * time is used.
 */
const believedMs = 10_000
const lastCount = 0xfff

/** `now`: ms since the epoch. */
export function createIds(now: () => number, random: (bytes: number) => Buffer = randomBytes): IdSource {
  let last = Number.NEGATIVE_INFINITY
  let count = 0
  const start = (ms: number) => {
    last = ms
    count = random(2).readUInt16BE() & lastCount
  }
  return () => {
    const ms = Math.trunc(now())
    if (ms > last || ms < last - believedMs) start(ms)
    else if (count < lastCount) count++
    else start(last + 1)
    return idOf(last, count, random(8).toString('hex'))
  }
}

function idOf(ms: number, count: number, random: string): string {
  const time = ms.toString(16).padStart(12, '0')
  const variant = ((Number.parseInt(random.slice(0, 1), 16) & 0x3) | 0x8).toString(16)
  const counted = count.toString(16).padStart(3, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${counted}-${variant}${random.slice(1, 4)}-${random.slice(4)}`
}

const timeOrdered = /^([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab]/

/** When an id of version 7 was created, in ms since the epoch; undefined for any other id. */
export function timeOfId(id: string): number | undefined {
  const [, high, low] = timeOrdered.exec(id) ?? []
  return high === undefined ? undefined : Number.parseInt(`${high}${low}`, 16)
}
