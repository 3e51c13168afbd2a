/**
 * Splits blocks into passages of about this many tokens. A passage never crosses a heading. A block is split only if it
 * does not fit.
 */
import { chunks } from '../../../retrieval/chunk.ts'
import { estimateTokens } from '../../../retrieval/tokens.ts'
import type { Block, Passage } from './types.ts'

/** The share of a passage that may repeat sentences of the passage before it. */
const overlapShare = 0.1
/** At least this share of a passage's tokens is for text, even if its headings are long. */
const leastShare = 0.5

type Piece = { readonly text: string; readonly offset: number; readonly tokens: number }

/** The headings above a position. */
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

/** Returns passages of one document, numbered from 0. */
export function passages(document: string, blocks: readonly Block[], maximumTokens: number): readonly Passage[] {
  const path = new HeadingPath()
  const found: Passage[] = []
  const under = new Map<string, number>()
  let pieces: Piece[] = []
  const flush = () => {
    const heading = path.toString()
    for (const { text, offset } of packed(pieces, tokensUnder(heading, maximumTokens))) {
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
    } else pieces.push(...piecesOf(block, tokensUnder(path.toString(), maximumTokens)))
  }
  flush()
  return found
}

const tokensUnder = (heading: string, maximumTokens: number): number =>
  Math.ceil(Math.max(maximumTokens * leastShare, maximumTokens - estimateTokens(heading)))

/** Joins pieces while they fit. */
function packed(pieces: readonly Piece[], available: number): readonly Piece[] {
  const all: Piece[] = []
  for (const piece of pieces) {
    const last = all.at(-1)
    if (last !== undefined && last.tokens + piece.tokens <= available) {
      all[all.length - 1] = {
        text: `${last.text}\n\n${piece.text}`,
        offset: last.offset,
        tokens: last.tokens + piece.tokens,
      }
    } else all.push(piece)
  }
  return all
}

function piecesOf({ kind, text, offset }: Block, available: number): readonly Piece[] {
  const tokens = estimateTokens(text)
  if (tokens <= available) return [{ text, offset, tokens }]
  switch (kind) {
    case 'code':
      return fenced(text, offset, available)
    case 'table':
      return rowsOf(text, offset, available)
    case 'list':
      return byLines(text, offset, available)
    default:
      return proseOf(text, offset, available)
  }
}

const proseOf = (text: string, offset: number, available: number): readonly Piece[] =>
  chunks(text, available, Math.floor(available * overlapShare)).map(chunk => ({
    text: chunk.text,
    offset: offset + chunk.start,
    tokens: estimateTokens(chunk.text),
  }))

/** Joins complete lines while they fit. A line that does not fit is split like prose. */
function byLines(text: string, offset: number, available: number): readonly Piece[] {
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
    if (tokens + own > available) flush()
    if (own > available) all.push(...proseOf(line, at, available))
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

/** Splits a fenced block. Each part has the fence again, so that readers recognize it as code. */
function fenced(text: string, offset: number, available: number): readonly Piece[] {
  const [, open, fence] = /^( {0,3}(`{3,}|~{3,})[^\n]*\n)/.exec(text) ?? []
  if (open === undefined || fence === undefined) return byLines(text, offset, available)
  const inner = text.slice(open.length).replace(/\n? {0,3}[`~]{3,}\s*$/, '')
  const around = estimateTokens(open) + estimateTokens(fence)
  return byLines(inner, offset + open.length, Math.max(available - around, Math.ceil(available * leastShare))).map(
    piece => ({
      ...piece,
      text: `${open}${piece.text}\n${fence}`,
      tokens: piece.tokens + around,
    }),
  )
}

/** Splits a table. Each part repeats the first row and, in Markdown, the line below the first row. */
function rowsOf(text: string, offset: number, available: number): readonly Piece[] {
  const [head = ''] = /^[^\n]*\n(?:[ \t]*\|?[ \t]*:?-[-:| \t]*\n)?/.exec(text) ?? []
  const around = estimateTokens(head)
  if (head === '' || around > available * leastShare) return byLines(text, offset, available)
  return byLines(text.slice(head.length), offset + head.length, available - around).map(piece => ({
    ...piece,
    text: `${head}${piece.text}`,
    tokens: piece.tokens + around,
  }))
}
