/** Kinds of value that the tool server's keys have beside those of all services: how each is read, and the rule that is told. */

import { durationMs } from '../../configuration/duration.ts'
import { text, whole } from '../../configuration/values.ts'
import { isBlock } from '../../http/address.ts'

/** As milliseconds. */
export function duration(leastMs: number, mostMs: number) {
  const { schema, type } = text('', value => {
    const ms = durationMs(value)
    return ms >= leastMs && ms <= mostMs
  })
  const rule = `must be a time like 500ms, 30s, 5m or 1h, from ${leastMs} ms to ${mostMs / 1_000} s`
  return { type, rule, schema: schema.transform(durationMs) }
}

const printable = (value: string) => !/\p{Cc}/u.test(value)

export const path = () =>
  text('must be a path of 1 to 4096 characters', value => value !== '' && value.length <= 4_096 && printable(value))

export const words = () =>
  text('must be 1 to 255 characters without control characters', value => {
    return value !== '' && value.length <= 255 && printable(value)
  })

/** Of a database connection: callers select by it, and files and variables name it. */
export const connectionName = () =>
  text('must be 1 to 63 letters, digits and . _ -', value => /^[A-Za-z0-9._-]{1,63}$/.test(value))

/** `host:port`, `[host]:port` or `:port`, as host and port. */
export function listenAddress() {
  const form = /^(?:\[([0-9A-Fa-f:.]+)\]|([0-9A-Za-z._*-]*)):(\d{1,5})$/
  const parts = (value: string) => {
    const [, bracketed, plain, port = ''] = form.exec(value) ?? []
    return { host: bracketed ?? plain ?? '', port: Number(port) }
  }
  const { type, rule, schema } = text('must be an address like :8080, 127.0.0.1:8080 or [::1]:8080', value => {
    return form.test(value) && parts(value).port <= 65_535
  })
  return { type, rule, schema: schema.transform(parts) }
}

const commaList = (value: string): string[] =>
  value
    .split(',')
    .map(one => one.trim())
    .filter(one => one !== '')

function list(rule: string, isRight: (entry: string) => boolean) {
  const kind = text(rule, value => commaList(value).length <= 1_000 && commaList(value).every(isRight))
  return { type: 'list' as const, rule, schema: kind.schema.transform(commaList) }
}

export const origins = () =>
  list('must be origins like https://example.com, at most 1000', entry =>
    /^https?:\/\/[\x21-\x2e\x30-\x7e]+$/.test(entry),
  )

export const blocks = () => list('must be IP addresses or CIDR blocks like 10.0.0.0/8 or fd00::/8', isBlock)

export const userNames = () => list('must be names of users', entry => entry.length <= 128 && printable(entry))

/** Ports of databases. */
export const port = () => whole(1, 65_535)
