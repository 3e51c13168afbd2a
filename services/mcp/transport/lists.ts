/**
 * The lists for clients, as JSON. A list depends only on its definitions. So the server writes the list once for all
 * callers with the same definitions, and splits it into pages. A cursor names its list and its page. If the list has
 * changed, the server refuses the cursor.
 */
import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Json } from '../../mcp-protocol/json.ts'
import type { Caller } from '../core/caller.ts'
import { CoreError } from '../core/errors.ts'
import type { Core } from '../core/index.ts'

const listMethods = ['tools/list', 'resources/list', 'resources/templates/list', 'prompts/list'] as const
type ListMethod = (typeof listMethods)[number]

export const isListMethod = (method: string): method is ListMethod =>
  (listMethods as readonly string[]).includes(method)

/** Returns the result as JSON without the outer braces, so that each revision can add its own members. */
export type Lists = (method: ListMethod, caller: Caller, cursor: Json | undefined) => string

const pageSize = 100
/** The maximum number of cached lists of one kind. */
const maximumCached = 16

const members: Record<ListMethod, { name: string; of(core: Core, caller: Caller): readonly object[] }> = {
  'tools/list': { name: 'tools', of: (core, caller) => core.tools(caller) },
  'resources/list': { name: 'resources', of: (core, caller) => core.resources(caller) },
  'resources/templates/list': { name: 'resourceTemplates', of: (core, caller) => core.templates(caller) },
  'prompts/list': { name: 'prompts', of: (core, caller) => core.prompts(caller) },
}

type Written = { readonly items: readonly object[]; readonly pages: readonly string[]; readonly digest: string }

const isSame = (left: readonly object[], right: readonly object[]): boolean =>
  left.length === right.length && left.every((item, index) => item === right[index])

function write(name: string, items: readonly object[]): Written {
  const digest = createHash('sha256').update(JSON.stringify(items)).digest('base64url').slice(0, 12)
  const count = Math.max(1, Math.ceil(items.length / pageSize))
  const pages = Array.from({ length: count }, (_, number) => {
    const page = JSON.stringify(items.slice(number * pageSize, (number + 1) * pageSize))
    const next = number + 1 === count ? '' : `,"nextCursor":"${cursorOf(name, digest, number + 1)}"`
    return `"${name}":${page}${next}`
  })
  return { items, pages, digest }
}

const cursorOf = (name: string, digest: string, page: number): string =>
  Buffer.from(`${name} ${digest} ${page}`).toString('base64url')

/** An empty cursor means the first page. */
function pageAt({ pages, digest }: Written, name: string, cursor: Json | undefined): string {
  const page =
    cursor === undefined || cursor === '' ? pages[0] : pages.find((_, at) => cursor === cursorOf(name, digest, at))
  if (page === undefined) throw new CoreError({ kind: 'invalid cursor' })
  return page
}

export function createLists(core: Core): Lists {
  const caches = new Map(listMethods.map(method => [method, new LRUCache<number, Written>({ max: maximumCached })]))
  let number = 0
  return (method, caller, cursor) => {
    const { name, of } = members[method]
    const items = of(core, caller)
    const cache = caches.get(method)
    for (const key of cache?.keys() ?? []) {
      const written = cache?.get(key)
      if (written !== undefined && isSame(written.items, items)) return pageAt(written, name, cursor)
    }
    const written = write(name, items)
    cache?.set(number++, written)
    return pageAt(written, name, cursor)
  }
}
