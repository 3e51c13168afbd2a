/**
 * The comment that says on whose behalf a statement runs, in the form of sqlcommenter: keys in order, values percent-encoded between quotes. It promises that no value
 * can end the comment or the quotes: all that is not a letter, a digit or one of `-_.~` is encoded.
 */
import type { CallContext } from '../core/call.ts'

/** Of one value, in characters: the tag is on every statement. */
const maximumValue = 128

/** Encoding changes nothing of it. */
const plain = /^[\w.~-]*$/

const encode = (value: string): string => (value.length <= maximumValue && plain.test(value) ? value : encodeAll(value))

const encodeAll = (value: string): string =>
  // A lone surrogate, as cutting may leave one, cannot be encoded.
  encodeURIComponent(value.slice(0, maximumValue).toWellFormed()).replace(
    /[!'()*]/g,
    character => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )

/** To stand behind a statement; on a line of its own, so that no comment of the statement takes it in. */
export function statementTag({ caller, requestId, traceparent }: CallContext, tool: string): string {
  const trace = traceparent === undefined ? '' : `,traceparent='${encode(traceparent)}'`
  const [request, by, user] = [encode(requestId), encode(tool), encode(caller.principal)]
  return `\n/*application='espalier-mcp',request='${request}',tool='${by}'${trace},user='${user}'*/`
}
