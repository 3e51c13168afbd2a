/** The levels of a request: its relation and each embedding. A level has its parameters and the key of its rows. */
import type { SentRequest } from './request.ts'
import { functions, type Relation, relations } from './resources.ts'

export type Level = {
  /** Prefix of this level's parameters: empty, or a path and a dot. */
  readonly prefix: string
  /** This level's key in an object of its parent. */
  readonly name: string
  /** The embedding with its hints. */
  readonly text: string
  readonly isSpread: boolean
  readonly relation: Relation | undefined
  /** Columns, aggregates and paths, as the request spells them. */
  readonly items: readonly string[]
  readonly embedded: readonly Level[]
}

/** Splits at commas outside of parentheses and quotes. */
function itemsOf(text: string): string[] {
  const items = ['']
  let depth = 0
  let isQuoted = false
  for (const letter of text) {
    if (letter === '"') isQuoted = !isQuoted
    else if (!isQuoted && letter === '(') depth++
    else if (!isQuoted && letter === ')') depth--
    if (letter === ',' && depth === 0 && !isQuoted) items.push('')
    else items[items.length - 1] += letter
  }
  return items.map(item => item.trim()).filter(item => item !== '')
}

const unquoted = (name: string): string => name.replace(/^"(.*)"$/s, '$1')
export const aggregate = /^([^()]*[.:])?(sum|avg|count|max|min)\(\)/
const embedding = /^(\.\.\.)?(?:("[^"]*"|[^":(!]+):)?("[^"]*"|[^":(!.]+)((?:!(?:"[^"]*"|[^"(!]+))*)\((.*)\)[^)]*$/s

function levelOf(item: string, above: Relation | undefined, prefix: string): Level | undefined {
  const [, spread, alias, name = '', hints = '', inner = ''] = (!aggregate.test(item) && embedding.exec(item)) || []
  if (name === '') return undefined
  const text = name + hints.replaceAll(/!(inner|left)(?=!|$)/g, '')
  const target = above?.embeddings.find(([known]) => known === text)?.[1]
  const shown = unquoted(alias ?? name)
  return {
    isSpread: spread !== undefined,
    name: shown,
    text,
    ...contents(inner, target === undefined ? undefined : relations[target], `${prefix}${alias ?? name}.`),
  }
}

function contents(
  select: string,
  relation: Relation | undefined,
  prefix: string,
): Omit<Level, 'name' | 'text' | 'isSpread'> {
  const items = itemsOf(select)
  const embedded = items.map(item => levelOf(item, relation, prefix))
  return {
    prefix,
    relation,
    items: items.filter((_, index) => embedded[index] === undefined),
    embedded: embedded.filter(level => level !== undefined),
  }
}

function relationOf(path: string): Relation | undefined {
  const name = decodeURIComponent(path.slice(1))
  if (!name.startsWith('rpc/')) return relations[name]
  const returned = functions[name.slice(4)]?.returns
  return typeof returned === 'string' ? relations[returned] : returned
}

/** The last `select` is used. */
export function levelsOf({ path, query }: SentRequest): Level {
  const select = query.findLast(([name]) => name === 'select')?.[1] ?? '*'
  return { name: '', text: '', isSpread: false, ...contents(select, relationOf(path), '') }
}

/** This level and all below it. */
export const allLevels = (level: Level): Level[] => [level, ...level.embedded.flatMap(allLevels)]
