/**
 * The comment that identifies a statement's caller, in sqlcommenter format: sorted keys, percent-encoded values in
 * quotes. No value can end the comment or the quotes: every character except letters, digits and `-_.~` is encoded.
 */
import type { CallContext } from '../core/call.ts'

/** The maximum length of a value: every statement has a tag. */
const maximumValue = 128

/** Characters that need no encoding. */
const plain = /^[\w.~-]*$/

const encode = (value: string): string => (value.length <= maximumValue && plain.test(value) ? value : encodeAll(value))

const encodeAll = (value: string): string =>
  // A lone surrogate, which truncation may leave, cannot be encoded.
  encodeURIComponent(value.slice(0, maximumValue).toWellFormed()).replace(
    /[!'()*]/g,
    character => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )

/** Appended to a statement on its own line, so that no comment of the statement can contain it. */
export function statementTag({ caller, requestId, traceparent }: CallContext, tool: string): string {
  const trace = traceparent === undefined ? '' : `,traceparent='${encode(traceparent)}'`
  const [request, by, user] = [encode(requestId), encode(tool), encode(caller.principal)]
  return `\n/*application='espalier-mcp',request='${request}',tool='${by}'${trace},user='${user}'*/`
}
