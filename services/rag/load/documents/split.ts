/** Blocks into passages of about so many tokens. A passage never reaches over a heading; a block is cut only where it does not fit by itself. Pure. */
import { chunks } from '../../../retrieval/chunk.ts'
import { estimateTokens } from '../../../retrieval/tokens.ts'
import type { Block, Passage } from './types.ts'

/** Of a passage, as far as sentences that two passages share go. */
const overlapShare = 0.1
/** However long its headings are, a passage has room for this share of its tokens as text. */
const leastRoom = 0.5

type Piece = { readonly text: string; readonly offset: number; readonly tokens: number }

/** Headings above a place. */
class HeadingPath {
  readonly #levels: { level: number; text: string }[] = []

  enter(level: number, text: string): void {
    while ((this.#levels.at(-1)?.level ?? 0) >= level) this.#levels.pop()
    this.#levels.push({ level, text })
  }

  toString(): string {
    return this.#levels.map(({ text }) => text).join(' > ')
  }
}

/** Passages of one document, numbered from 0. */
export function passages(document: string, blocks: readonly Block[], maximumTokens: number): readonly Passage[] {
  const path = new HeadingPath()
  const found: Passage[] = []
  const under = new Map<string, number>()
  let pieces: Piece[] = []
  const flush = () => {
    const heading = path.toString()
    for (const { text, offset } of packed(pieces, roomUnder(heading, maximumTokens))) {
      const number = under.get(heading) ?? 0
      under.set(heading, number + 1)
      const content = heading === '' ? text : `${heading}\n\n${text}`
      const key = `${heading}\n${number}`
      found.push({ document, heading, ordinal: found.length, position: offset, content, key })
    }
    pieces = []
  }
  for (const block of blocks) {
    if (block.kind === 'heading') {
      flush()
      path.enter(block.level, block.text)
    } else pieces.push(...piecesOf(block, roomUnder(path.toString(), maximumTokens)))
  }
  flush()
  return found
}

const roomUnder = (heading: string, maximumTokens: number): number =>
  Math.ceil(Math.max(maximumTokens * leastRoom, maximumTokens - estimateTokens(heading)))

/** Pieces together as long as they fit. */
function packed(pieces: readonly Piece[], room: number): readonly Piece[] {
  const all: Piece[] = []
  for (const piece of pieces) {
    const last = all.at(-1)
    if (last !== undefined && last.tokens + piece.tokens <= room) {
      all[all.length - 1] = {
        text: `${last.text}\n\n${piece.text}`,
        offset: last.offset,
        tokens: last.tokens + piece.tokens,
      }
    } else all.push(piece)
  }
  return all
}

function piecesOf({ kind, text, offset }: Block, room: number): readonly Piece[] {
  const tokens = estimateTokens(text)
  if (tokens <= room) return [{ text, offset, tokens }]
  switch (kind) {
    case 'code':
      return fenced(text, offset, room)
    case 'table':
      return rowsOf(text, offset, room)
    case 'list':
      return byLines(text, offset, room)
    default:
      return proseOf(text, offset, room)
  }
}

const proseOf = (text: string, offset: number, room: number): readonly Piece[] =>
  chunks(text, room, Math.floor(room * overlapShare)).map(chunk => ({
    text: chunk.text,
    offset: offset + chunk.start,
    tokens: estimateTokens(chunk.text),
  }))

/** Whole lines together as long as they fit; a line that does not fit by itself is cut as prose is. */
function byLines(text: string, offset: number, room: number): readonly Piece[] {
  const all: Piece[] = []
  let lines: string[] = []
  let [from, at, tokens] = [offset, offset, 0]
  const flush = () => {
    if (lines.some(line => line.trim() !== '')) all.push({ text: lines.join('\n'), offset: from, tokens })
    lines = []
    tokens = 0
  }
  for (const line of text.split('\n')) {
    const own = estimateTokens(line) + 1
    if (tokens + own > room) flush()
    if (own > room) all.push(...proseOf(line, at, room))
    else {
      if (lines.length === 0) from = at
      lines.push(line)
      tokens += own
    }
    at += line.length + 1
  }
  flush()
  return all
}

/** Each part of a fenced block has the fence around it again, so that it is read as code. */
function fenced(text: string, offset: number, room: number): readonly Piece[] {
  const [, open, mark] = /^( {0,3}(`{3,}|~{3,})[^\n]*\n)/.exec(text) ?? []
  if (open === undefined || mark === undefined) return byLines(text, offset, room)
  const inner = text.slice(open.length).replace(/\n? {0,3}[`~]{3,}\s*$/, '')
  const around = estimateTokens(open) + estimateTokens(mark)
  return byLines(inner, offset + open.length, Math.max(room - around, Math.ceil(room * leastRoom))).map(piece => ({
    ...piece,
    text: `${open}${piece.text}\n${mark}`,
    tokens: piece.tokens + around,
  }))
}

/** Each part of a table has the first row, and the line below it in Markdown, again. */
function rowsOf(text: string, offset: number, room: number): readonly Piece[] {
  const [head = ''] = /^[^\n]*\n(?:[ \t]*\|?[ \t]*:?-[-:| \t]*\n)?/.exec(text) ?? []
  const around = estimateTokens(head)
  if (head === '' || around > room * leastRoom) return byLines(text, offset, room)
  return byLines(text.slice(head.length), offset + head.length, room - around).map(piece => ({
    ...piece,
    text: `${head}${piece.text}`,
    tokens: piece.tokens + around,
  }))
}
