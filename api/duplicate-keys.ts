/**
 * Keys that stand twice in one object of JSON (RFC 8259, section 4: what comes of them is anybody's guess). JSON.parse takes
 * the last of them, whatever reads the same text before us may take the first: such a body is refused.
 */

/** Where in the text we are: an object with the keys seen so far, or an array. Most objects are small, so a Set comes with the second key. */
type ObjectFrame = { isObject: true; first: string | undefined; others: Set<string> | undefined; key: string }
type ArrayFrame = { isObject: false; index: number }
type Frame = ObjectFrame | ArrayFrame

const tokens = /"[^"\\]*(?:\\[\s\S][^"\\]*)*"|[{}[\],:]/g

const textOf = (literal: string): string =>
  literal.includes('\\') ? String(JSON.parse(literal)) : literal.slice(1, -1)

/** Notes the key; whether it is there already. */
function isSeen(frame: ObjectFrame, key: string): boolean {
  frame.key = key
  if (frame.first === undefined) {
    frame.first = key
    return false
  }
  if (frame.first === key || frame.others?.has(key)) return true
  frame.others ??= new Set()
  frame.others.add(key)
  return false
}

const opened = (token: string): Frame =>
  token === '{' ? { isObject: true, first: undefined, others: undefined, key: '' } : { isObject: false, index: 0 }

/** The path of the first key that stands twice in an object; undefined where none does. `text`: JSON that can be parsed. */
export function duplicateKey(text: string): PropertyKey[] | undefined {
  const stack: Frame[] = []
  // A string is a key where an object or one of its members begins.
  let beginsMember = false
  for (const [token] of text.matchAll(tokens)) {
    const top = stack.at(-1)
    if (token === '{' || token === '[') {
      stack.push(opened(token))
      beginsMember = token === '{'
    } else if (token === '}' || token === ']') stack.pop()
    else if (token === ',') {
      if (top?.isObject === false) top.index++
      beginsMember = top?.isObject === true
    } else if (token === ':') beginsMember = false
    else if (beginsMember && top?.isObject === true && isSeen(top, textOf(token)))
      return stack.map(frame => (frame.isObject ? frame.key : frame.index))
  }
  return undefined
}
