/** Links from documents to files that are not pages: they lead to the repository, or are plain text where none is named. */
import { join, normalize } from 'node:path'
import type { MarkdownOptions } from 'vitepress'

type Markdown = Parameters<NonNullable<MarkdownOptions['config']>>[0]

/** The file below the repository that `href` of the page `page` (below docs/) names; undefined if it is a page, or no path. */
export function sourceOf(page: string, href: string): string | undefined {
  if (/^[a-z]+:|^[/#]/.test(href)) return undefined
  const path = normalize(join('docs', page, '..', href.replace(/[?#].*$/, '')))
  return path.startsWith('docs/') ? undefined : path
}

export function linkSources(markdown: Markdown, repository: string | undefined): void {
  markdown.core.ruler.push('sources', state => {
    const { relativePath = '' } = state.env as { relativePath?: string }
    for (const { children } of state.tokens) {
      if (children === null) continue
      let isRemoved = false
      for (const token of children) {
        const source = token.type === 'link_open' ? sourceOf(relativePath, token.attrGet('href') ?? '') : undefined
        if (source !== undefined && repository !== undefined) token.attrSet('href', `${repository}/blob/main/${source}`)
        if (source !== undefined && repository === undefined) isRemoved = true
        if (!isRemoved) continue
        const isEnd = token.type === 'link_close'
        if (isEnd || token.type === 'link_open')
          Object.assign(token, { type: 'text', tag: '', content: '', nesting: 0 })
        if (isEnd) isRemoved = false
      }
    }
  })
}
