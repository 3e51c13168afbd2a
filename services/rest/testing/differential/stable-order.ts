/**
 * Adds orders so that both servers return the same pages. If a level is a page, or if its order leaves ties, the judge
 * adds the level's key to its order. A page of groups without a possible order is not requested.
 */
import { aggregate, allLevels, type Level, levelsOf } from './levels.ts'
import type { Parameter } from './query.ts'
import { isWrite, type SentRequest } from './request.ts'

const term = /^("[^"]*"|[^".()]+)(\([^()]*\))?(\.(asc|desc))?(\.(nullsfirst|nullslast))?$/
const isOrderable = (order: string): boolean => order.split(',').every(one => term.test(one))
/** Column types that have no order, or that cannot be part of a key. */
const unordered = /^(json|point|xml)$/

/** The columns that make a level's order total. Undefined if there are no such columns. */
function keyOf({ items, relation, embedded }: Level): readonly string[] | undefined {
  if (relation === undefined) return undefined
  const columns = relation.columns.filter(([, type]) => !unordered.test(type)).map(([name]) => name)
  if (!items.some(item => aggregate.test(item))) return relation.key ?? (columns.includes('id') ? ['id'] : columns)
  const grouped = items.filter(item => !aggregate.test(item))
  return embedded.length === 0 && grouped.every(item => columns.includes(item)) ? grouped : undefined
}

const isPage = (sent: SentRequest, prefix: string): boolean =>
  sent.query.some(([name]) => name === `${prefix}limit` || name === `${prefix}offset`) ||
  (prefix === '' && sent.headers.Range !== undefined)

function withoutPage(sent: SentRequest, prefix: string): SentRequest {
  const { Range, ...headers } = sent.headers
  return {
    ...sent,
    headers: prefix === '' || Range === undefined ? headers : { ...headers, Range },
    query: sent.query.filter(([name]) => name !== `${prefix}limit` && name !== `${prefix}offset`),
  }
}

/** A function returns rows, but not groups, in its own order. 12.0.2 can order them only by selected columns. */
function missing(sent: SentRequest, level: Level, key: readonly string[], order: string): string[] {
  const known = order.split(',').map(one => one.replace(/\.(asc|desc|nullsfirst|nullslast)/g, ''))
  const isSelected = (name: string) => level.items.includes(name) || level.items.includes('*')
  const isGrouped = level.items.some(item => aggregate.test(item))
  const isOfFunction = level.prefix === '' && sent.path.startsWith('/rpc') && !isGrouped
  return key.filter(name => !known.includes(name) && (!isOfFunction || (order !== '' && isSelected(name))))
}

function ordered(sent: SentRequest, level: Level, isAlwaysPage: boolean): SentRequest | undefined {
  const { prefix } = level
  if ((prefix === '' && isWrite(sent)) || level.relation === undefined) return sent
  const name = `${prefix}order`
  const order = sent.query.findLast(([known]) => known === name)?.[1]
  const isOnPage = isPage(sent, prefix) || (isAlwaysPage && !isWrite(sent))
  if ((!isOnPage && order === undefined) || (order !== undefined && !isOrderable(order))) return sent
  const key = keyOf(level)
  if (key === undefined) return isAlwaysPage && !isWrite(sent) ? undefined : isOnPage ? withoutPage(sent, prefix) : sent
  const more = missing(sent, level, key, order ?? '')
  if (more.length === 0) return sent
  const total: Parameter = [name, [...(order === undefined ? [] : [order]), ...more].join()]
  return { ...sent, query: [...sent.query.filter(([known]) => known !== name), total] }
}

/**
 * The request with a total order if it needs one. Undefined if its pages have no total order. `isAlwaysPage`:
 * db-max-rows is set.
 */
export function withStableOrder(sent: SentRequest, isAlwaysPage: boolean): SentRequest | undefined {
  return allLevels(levelsOf(sent)).reduce<SentRequest | undefined>(
    (found, level) => found && ordered(found, level, isAlwaysPage),
    sent,
  )
}
