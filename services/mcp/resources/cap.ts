/** Fits JSON into a token limit: truncates one list after another, and reports it in `truncated`. */
import type { Json, JsonObject } from '../../mcp-protocol/json.ts'

type Attempt = { readonly object: JsonObject; readonly text: string; readonly fits: boolean }

/**
 * The object as JSON text. If the text exceeds the limit, truncates the first of `lists`. If that is not enough,
 * empties this list and truncates the next. Returns undefined if the object is too large even without its lists.
 */
export function cappedJson(
  object: JsonObject,
  lists: readonly string[],
  budget: number,
  tokensOf: (text: string) => number,
  more: string,
): string | undefined {
  const attempt = (candidate: JsonObject): Attempt => {
    const text = JSON.stringify(candidate)
    return { object: candidate, text, fits: tokensOf(text) <= budget }
  }
  let current = attempt(object)
  for (const key of lists) {
    if (current.fits) break
    const list: Json | undefined = object[key]
    if (Array.isArray(list) && list.length > 0) current = truncateList(current.object, key, list, more, attempt)
  }
  return current.fits ? current.text : undefined
}

/** Keeps as many items as fit, possibly none. */
function truncateList(
  object: JsonObject,
  key: string,
  list: readonly Json[],
  more: string,
  attempt: (candidate: JsonObject) => Attempt,
): Attempt {
  const { truncated } = object
  const earlier =
    typeof truncated === 'object' && truncated !== null && !Array.isArray(truncated) ? truncated : { more }
  const withItems = (shown: number) =>
    attempt({
      ...object,
      [key]: list.slice(0, shown),
      truncated: { ...earlier, [key]: `${shown} of ${list.length}` },
    })
  let [fits, tooMany] = [0, list.length]
  while (fits + 1 < tooMany) {
    const middle = Math.floor((fits + tooMany) / 2)
    if (withItems(middle).fits) fits = middle
    else tooMany = middle
  }
  return withItems(fits)
}
