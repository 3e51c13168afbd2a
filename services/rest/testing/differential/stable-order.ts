/**
 * Pages and orders that both servers have to answer alike. The judge adds the key of each level that is a page, or has an order that leaves ties, to the order of
 * that level. A page of groups that no order can be given to is not asked for.
 */
import { aggregate, allLevels, type Level, levelsOf } from './levels.ts'
import type { Parameter } from './query.ts'
import { type Asked, isWrite } from './request.ts'

const term = /^("[^"]*"|[^".()]+)(\([^()]*\))?(\.(asc|desc))?(\.(nullsfirst|nullslast))?$/
const isWhole = (order: string): boolean => order.split(',').every(one => term.test(one))
/** Types of columns that have no order, or of which a key is no part. */
const unordered = /^(json|point|xml)$/

/** The columns that make the order of a level total; undefined where none do. */
function keyOf({ items, relation, embedded }: Level): readonly string[] | undefined {
  if (relation === undefined) return undefined
  const columns = relation.columns.filter(([, type]) => !unordered.test(type)).map(([name]) => name)
  if (!items.some(item => aggregate.test(item))) return relation.key ?? (columns.includes('id') ? ['id'] : columns)
  const grouped = items.filter(item => !aggregate.test(item))
  return embedded.length === 0 && grouped.every(item => columns.includes(item)) ? grouped : undefined
}

const isPage = (asked: Asked, prefix: string): boolean =>
  asked.query.some(([name]) => name === `${prefix}limit` || name === `${prefix}offset`) ||
  (prefix === '' && asked.headers.Range !== undefined)

function withoutPage(asked: Asked, prefix: string): Asked {
  const { Range, ...headers } = asked.headers
  return {
    ...asked,
    headers: prefix === '' || Range === undefined ? headers : { ...headers, Range },
    query: asked.query.filter(([name]) => name !== `${prefix}limit` && name !== `${prefix}offset`),
  }
}

/** A function returns rows, but not groups, in an order of its own, and 12.0.2 orders them by what is selected alone. */
function missing(asked: Asked, level: Level, key: readonly string[], order: string): string[] {
  const known = order.split(',').map(one => one.replace(/\.(asc|desc|nullsfirst|nullslast)/g, ''))
  const isSelected = (name: string) => level.items.includes(name) || level.items.includes('*')
  const isGrouped = level.items.some(item => aggregate.test(item))
  const isOfFunction = level.prefix === '' && asked.path.startsWith('/rpc') && !isGrouped
  return key.filter(name => !known.includes(name) && (!isOfFunction || (order !== '' && isSelected(name))))
}

function ordered(asked: Asked, level: Level, isAlwaysPage: boolean): Asked | undefined {
  const { prefix } = level
  if ((prefix === '' && isWrite(asked)) || level.relation === undefined) return asked
  const name = `${prefix}order`
  const order = asked.query.findLast(([known]) => known === name)?.[1]
  const isOnPage = isPage(asked, prefix) || (isAlwaysPage && !isWrite(asked))
  if ((!isOnPage && order === undefined) || (order !== undefined && !isWhole(order))) return asked
  const key = keyOf(level)
  if (key === undefined)
    return isAlwaysPage && !isWrite(asked) ? undefined : isOnPage ? withoutPage(asked, prefix) : asked
  const more = missing(asked, level, key, order ?? '')
  if (more.length === 0) return asked
  const whole: Parameter = [name, [...(order === undefined ? [] : [order]), ...more].join()]
  return { ...asked, query: [...asked.query.filter(([known]) => known !== name), whole] }
}

/** The request with a total order where one is needed; undefined where its pages have none. `isAlwaysPage`: db-max-rows is set. */
export function withStableOrder(asked: Asked, isAlwaysPage: boolean): Asked | undefined {
  return allLevels(levelsOf(asked)).reduce<Asked | undefined>(
    (found, level) => found && ordered(found, level, isAlwaysPage),
    asked,
  )
}
