/**
 * The comment that identifies a statement's caller, in sqlcommenter format: sorted keys, percent-encoded values in
 * quotes. Every character except letters, digits and `-_.~` is encoded, so no value can end the comment or the quotes.
 */
import type { CallContext } from '../core/call.ts'

/** The maximum length of a value. It is short because every statement has a tag. */
const maximumValue = 128

/** Characters that need no encoding. */
const plain = /^[\w.~-]*$/

const encode = (value: string): string => (value.length <= maximumValue && plain.test(value) ? value : encodeAll(value))

const encodeAll = (value: string): string =>
  // A lone surrogate cannot be encoded. Truncation may leave one.
  encodeURIComponent(value.slice(0, maximumValue).toWellFormed()).replace(
    /[!'()*]/g,
    character => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )

/** Returns the tag on its own line, so that no comment of the statement can contain it. */
export function statementTag({ caller, requestId, traceparent }: CallContext, tool: string): string {
  const trace = traceparent === undefined ? '' : `,traceparent='${encode(traceparent)}'`
  const [request, by, user] = [encode(requestId), encode(tool), encode(caller.principal)]
  return `\n/*application='espalier-mcp',request='${request}',tool='${by}'${trace},user='${user}'*/`
}
