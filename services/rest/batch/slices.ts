/**
 * Slices values out of JSON text, so that a batch passes on exactly the client's bytes. Requires valid JSON. Recurses
 * once for each nesting level.
 */

const space = new Set([' ', '\t', '\n', '\r'])
const isOpening = (character: string | undefined) => character === '{' || character === '['
const isClosing = (character: string | undefined) => character === '}' || character === ']'

class Cursor {
  readonly #text: string
  at = 0

  constructor(text: string) {
    this.#text = text
  }

  /** The next byte after white space. */
  peek(): string | undefined {
    while (space.has(this.#text[this.at] ?? '')) this.at++
    return this.#text[this.at]
  }

  #skipString(): void {
    for (this.at++; this.#text[this.at] !== '"'; this.at++) if (this.#text[this.at] === '\\') this.at++
    this.at++
  }

  /** The text of the value that starts here. */
  value(): string {
    const first = this.peek()
    const from = this.at
    let depth = 0
    do {
      const character = this.#text[this.at]
      if (character === '"') {
        this.#skipString()
        continue
      }
      if (isOpening(character)) depth++
      else if (isClosing(character)) depth--
      this.at++
    } while (depth > 0)
    if (isOpening(first) || first === '"') return this.#text.slice(from, this.at)
    while (/[^\s,\]}]/.test(this.#text[this.at] ?? ' ')) this.at++
    return this.#text.slice(from, this.at)
  }
}

/** The first elements of an array, at most this many, unchanged. */
export function elementsOf(array: string, most: number): string[] {
  const cursor = new Cursor(array)
  cursor.peek()
  cursor.at++
  const elements: string[] = []
  while (cursor.peek() !== ']' && elements.length < most) {
    elements.push(cursor.value())
    if (cursor.peek() === ',') cursor.at++
  }
  return elements
}

/** The members of an object, each value unchanged. */
export function membersOf(object: string): [name: string, value: string][] {
  const cursor = new Cursor(object)
  cursor.peek()
  cursor.at++
  const members: [string, string][] = []
  while (cursor.peek() !== '}') {
    const name: unknown = JSON.parse(cursor.value())
    cursor.peek()
    // The colon.
    cursor.at++
    members.push([String(name), cursor.value()])
    if (cursor.peek() === ',') cursor.at++
  }
  return members
}
