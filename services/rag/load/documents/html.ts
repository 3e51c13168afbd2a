/**
 * Converts HTML to blocks. Parses it like a browser. Drops elements that are not text of the page: scripts, styles,
 * navigation, forms.
 */
import { type DefaultTreeAdapterMap, parse } from 'parse5'
import type { Block } from './types.ts'

type Node = DefaultTreeAdapterMap['node']
type Element = DefaultTreeAdapterMap['element']

const dropped = new Set(
  'script style nav noscript template svg math iframe object embed canvas audio video form button select textarea input head footer aside dialog'.split(
    ' ',
  ),
)
/** Elements whose text is separate from the text before and after them. */
const blockElements = new Set(
  'address article blockquote body center dd details div dl dt fieldset figcaption figure header hgroup html legend main p search section summary'.split(
    ' ',
  ),
)
const headings: Readonly<Record<string, number>> = { h1: 1, h2: 2, h3: 3, h4: 4, h5: 5, h6: 6 }
/** Real pages have less depth. A deeper page is truncated at this depth. */
const deepest = 500

const isElement = (node: Node): node is Element => 'tagName' in node
const childrenOf = (node: Node): readonly Node[] => ('childNodes' in node ? node.childNodes : [])
const isHidden = ({ attrs }: Element) =>
  attrs.some(({ name, value }) => name === 'hidden' || (name === 'aria-hidden' && value === 'true'))
const isDropped = (node: Element) => dropped.has(node.tagName) || isHidden(node)
const offsetOf = (node: Node): number => node.sourceCodeLocation?.startOffset ?? 0

/** The text below a node, unchanged. */
function rawText(node: Node, depth = 0): string {
  if (node.nodeName === '#text' && 'value' in node) return node.value
  if (depth > deepest || (isElement(node) && isDropped(node))) return ''
  if (node.nodeName === 'br') return '\n'
  return childrenOf(node)
    .map(child => rawText(child, depth + 1))
    .join('')
}

const folded = (text: string): string => text.replaceAll(/\s+/g, ' ').trim()

export function htmlBlocks(text: string): readonly Block[] {
  const page = parse(text, { sourceCodeLocationInfo: true })
  const title = titleOf(page)
  const reader = new PageReader()
  reader.read(page, 0)
  const blocks = reader.end()
  const isTitled = blocks.some(block => block.kind === 'heading' && block.level === 1)
  return title === '' || isTitled ? blocks : [{ kind: 'heading', level: 1, text: title, offset: 0 }, ...blocks]
}

/** The content of `<title>`. */
function titleOf(page: Node): string {
  const html = childrenOf(page).find(node => node.nodeName === 'html')
  const head = html && childrenOf(html).find(node => node.nodeName === 'head')
  const title = head && childrenOf(head).find(node => node.nodeName === 'title')
  return title === undefined ? '' : folded(rawText(title))
}

class PageReader {
  readonly #blocks: Block[] = []
  /** Text that does not belong to a block yet. */
  #text = ''
  #offset = 0

  read(node: Node, depth: number): void {
    if (depth > deepest) return
    if (node.nodeName === '#text' && 'value' in node) this.#inline(node.value, node)
    else if (!isElement(node)) this.#children(node, depth)
    else if (!isDropped(node)) this.#element(node, depth)
  }

  end(): readonly Block[] {
    this.#flush()
    return this.#blocks
  }

  #children(node: Node, depth: number): void {
    for (const child of childrenOf(node)) this.read(child, depth + 1)
  }

  #element(node: Element, depth: number): void {
    const block = blockOf(node)
    if (block !== undefined) {
      this.#flush()
      if (block.text !== '') this.#blocks.push(block)
    } else if (node.tagName === 'br') this.#inline('\n', node)
    else if (blockElements.has(node.tagName)) {
      this.#flush()
      this.#children(node, depth)
      this.#flush()
    } else this.#children(node, depth)
  }

  #inline(text: string, node: Node): void {
    if (this.#text === '') {
      if (text.trim() === '') return
      this.#offset = offsetOf(node)
    }
    this.#text += text
  }

  #flush(): void {
    const text = folded(this.#text)
    this.#text = ''
    if (text !== '') this.#blocks.push({ kind: 'text', text, offset: this.#offset })
  }
}

/** Returns undefined if the element alone is not a block. */
function blockOf(node: Element): Block | undefined {
  const offset = offsetOf(node)
  const level = headings[node.tagName]
  if (level !== undefined) return { kind: 'heading', level, text: folded(rawText(node)), offset }
  switch (node.tagName) {
    case 'pre':
      return { kind: 'code', text: rawText(node).replace(/^\n+/, '').trimEnd(), offset }
    case 'table':
      return { kind: 'table', text: tableText(node), offset }
    case 'ul':
    case 'ol':
      return { kind: 'list', text: listText(node, 0), offset }
    default:
      return undefined
  }
}

/** Returns one line for each item. Items of nested lists are indented. */
function listText(list: Element, depth: number): string {
  const lines: string[] = []
  for (const [index, item] of childrenOf(list)
    .filter(node => node.nodeName === 'li')
    .entries()) {
    const isInner = (node: Node) => node.nodeName === 'ul' || node.nodeName === 'ol'
    const own = childrenOf(item).filter(node => !isInner(node))
    const text = folded(own.map(node => ` ${rawText(node)}`).join(''))
    const bullet = list.tagName === 'ol' ? `${index + 1}.` : '-'
    if (text !== '') lines.push(`${'  '.repeat(depth)}${bullet} ${text}`)
    if (depth >= deepest) continue
    for (const inner of childrenOf(item)) {
      if (isInner(inner) && isElement(inner)) lines.push(listText(inner, depth + 1))
    }
  }
  return lines.filter(line => line !== '').join('\n')
}

/** Returns one line for each row, as in Markdown. A table inside a cell becomes text of the cell. */
function tableText(table: Element): string {
  const rows: string[] = []
  const visit = (node: Node): void => {
    for (const child of childrenOf(node)) {
      if (child.nodeName === 'caption') rows.push(folded(rawText(child)))
      else if (child.nodeName === 'tr') {
        const cells = childrenOf(child).filter(({ nodeName }) => nodeName === 'td' || nodeName === 'th')
        const texts = cells.map(cell => folded(rawText(cell)))
        if (texts.some(text => text !== '')) rows.push(`| ${texts.join(' | ')} |`)
      } else if (['thead', 'tbody', 'tfoot'].includes(child.nodeName)) visit(child)
    }
  }
  visit(table)
  return rows.join('\n')
}
