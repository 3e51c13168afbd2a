/**
 * Splits Markdown into blocks. The source text stays unchanged, because models read Markdown, and people recognize it
 * in an answer's sources.
 */
import { lexer, type Token } from 'marked'
import { textBlocks } from './text.ts'
import type { Block } from './types.ts'

/** YAML or TOML between lines of `---` or `+++` at the start. It is not text of the document. */
const frontMatter = /^(---|\+\+\+)\n(?=#|[\w-]+\s*[:=])[\s\S]*?\n\1[ \t]*(?:\n|$)/
const titleInFrontMatter = /^title\s*[:=]\s*(["']?)(.+?)\1\s*$/m

const kinds: Readonly<Record<string, 'code' | 'table' | 'list'>> = { code: 'code', table: 'table', list: 'list' }

/**
 * The parser takes time quadratic in the nesting of lists, and recurses for each level. Real documents have less depth.
 */
const deeplyIndented = /^[ \t]{100,}/gm
const deeplyNested = /^[ \t]*(?:[-*+][ \t]+|\d{1,9}[.)][ \t]+|>[ \t]*){100}/m
const deepest = 100
const longestHeading = 1_000

/** Expects `\n` as line end. */
export function markdownBlocks(written: string): readonly Block[] {
  const text = written.replaceAll(/\r\n?/g, '\n').replaceAll(deeplyIndented, blanks => blanks.slice(0, deepest))
  if (deeplyNested.test(text)) return textBlocks(text)
  const [front = ''] = frontMatter.exec(text) ?? []
  const title = titleInFrontMatter.exec(front)?.[2]
  const blocks: Block[] = title === undefined ? [] : [{ kind: 'heading', level: 1, text: title, offset: 0 }]
  let offset = front.length
  for (const token of lexer(text.slice(front.length))) {
    const block = blockOf(token, offset)
    // If a document starts with its title, the block contains the title only once.
    const isRepeated = block?.kind === 'heading' && blocks.length === 1 && block.text === title
    if (block !== undefined && !isRepeated) blocks.push(block)
    offset += token.raw.length
  }
  return blocks
}

function blockOf(token: Token, offset: number): Block | undefined {
  if (token.type === 'heading') {
    return {
      kind: 'heading',
      level: Number(token.depth),
      text: plain(String(token.text).slice(0, longestHeading)),
      offset,
    }
  }
  if (['space', 'hr', 'def'].includes(token.type)) return undefined
  const written = token.type === 'code' ? token.raw : withoutComments(token.raw)
  const text = written.replace(/\s+$/, '').replace(/^\n+/, '')
  return text.trim() === '' ? undefined : { kind: kinds[token.type] ?? 'text', text, offset }
}

function withoutComments(text: string): string {
  const [first = '', ...rest] = text.split('<!--')
  return first + rest.map(part => part.slice(part.includes('-->') ? part.indexOf('-->') + 3 : part.length)).join('')
}

/** A heading as plain text: links become their text, and emphasis and code marks are removed. */
const plain = (text: string): string =>
  text
    .replaceAll(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/\*+(?=\S)|(?<=\S)\*+|__|`/g, '')
    .replaceAll(/<[^>]*>/g, '')
    .replaceAll(/\s+/g, ' ')
    .trim()
