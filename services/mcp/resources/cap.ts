/** JSON that fits a budget: lists lose their ends, one list after the other, and `truncated` says so. Pure. */
import type { Json, JsonObject } from '../../mcp-protocol/json.ts'

type Cut = { readonly object: JsonObject; readonly text: string; readonly fits: boolean }

/**
 * The object as JSON text. Where it takes more than the budget, the first of `lists` is cut to what fits; where that is not enough, it is emptied and the next is cut.
 * undefined: even without all of them it is too much.
 */
export function cappedJson(
  object: JsonObject,
  lists: readonly string[],
  budget: number,
  tokensOf: (text: string) => number,
  more: string,
): string | undefined {
  const attempt = (candidate: JsonObject): Cut => {
    const text = JSON.stringify(candidate)
    return { object: candidate, text, fits: tokensOf(text) <= budget }
  }
  let cut = attempt(object)
  for (const key of lists) {
    if (cut.fits) break
    const list: Json | undefined = object[key]
    if (Array.isArray(list) && list.length > 0) cut = cutList(cut.object, key, list, more, attempt)
  }
  return cut.fits ? cut.text : undefined
}

/** With as many items as fit, none at the least. */
function cutList(
  object: JsonObject,
  key: string,
  list: readonly Json[],
  more: string,
  attempt: (candidate: JsonObject) => Cut,
): Cut {
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
