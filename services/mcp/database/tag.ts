/**
 * The comment that says on whose behalf a statement runs, in the form of sqlcommenter: keys in order, values percent-encoded between quotes. It promises that no value
 * can end the comment or the quotes: all that is not a letter, a digit or one of `-_.~` is encoded.
 */
import type { CallContext } from '../core/call.ts'

/** Of one value, in characters: the tag is on every statement. */
const maximumValue = 128

const encode = (value: string): string =>
  // A lone surrogate, as cutting may leave one, cannot be encoded.
  encodeURIComponent(value.slice(0, maximumValue).toWellFormed()).replace(
    /[!'()*]/g,
    character => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )

/** To stand behind a statement; on a line of its own, so that no comment of the statement takes it in. */
export function statementTag({ caller, requestId, traceparent }: CallContext, tool: string): string {
  const pairs = [
    ['application', 'espalier-mcp'],
    ['request', requestId],
    ['tool', tool],
    ...(traceparent === undefined ? [] : [['traceparent', traceparent]]),
    ['user', caller.principal],
  ]
  return `\n/*${pairs.map(([key, value = '']) => `${key}='${encode(value)}'`).join(',')}*/`
}
