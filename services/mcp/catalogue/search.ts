/**
 * Finds relations by words in the names and comments of relations and their columns. A match must contain every word.
 */

import { cellsOf } from '../../postgres/cells.ts'
import type { OwnStatement, Rows } from '../database/access.ts'
import type { Relation } from './relations.ts'

export type Match = {
  readonly relation: Relation
  /** Names of the columns whose name or comment contains a word. */
  readonly columns: readonly string[]
}

const mostWords = 8
const mostColumns = 50_000

export const wordsOf = (search: string): readonly string[] =>
  [...new Set(search.toLowerCase().split(/[\s,;]+/))].filter(word => word !== '').slice(0, mostWords)

/** Columns whose name or comment contains one of the words. */
export const columnSearch = (words: readonly string[]): OwnStatement => ({
  values: [JSON.stringify(words.map(word => `%${word.replace(/[\\%_]/g, '\\$&')}%`))],
  text: `
select attribute.attrelid as relation, attribute.attname as name, pg_catalog.left(description.description, 500) as comment
from pg_catalog.pg_attribute attribute
  join pg_catalog.pg_class relation on relation.oid = attribute.attrelid and relation.relkind in ('r', 'p', 'v', 'm', 'f')
  left join pg_catalog.pg_description description
    on description.classoid = 'pg_catalog.pg_class'::regclass and description.objoid = attribute.attrelid and description.objsubid = attribute.attnum
where attribute.attnum > 0 and not attribute.attisdropped
  and pg_catalog.lower(attribute.attname || ' ' || coalesce(pg_catalog.left(description.description, 500), ''))
    like any (array(select json_array_elements_text($1::json)))
  and pg_catalog.has_column_privilege(attribute.attrelid, attribute.attnum, 'select, insert, update')
order by attribute.attrelid, attribute.attnum limit ${mostColumns}`,
})

/** Matching relations: first those with a word in their own name, otherwise in list order. */
export function matchesOf(words: readonly string[], relations: readonly Relation[], found: Rows): readonly Match[] {
  const columns = Map.groupBy(cellsOf(found), cells => cells.text('relation'))
  const matches: (Match & { isByName: boolean })[] = []
  for (const relation of relations) {
    const own = columns.get(relation.oid) ?? []
    const texts = [
      `${relation.schema}.${relation.name} ${relation.comment ?? ''}`,
      ...own.map(cells => `${cells.text('name')} ${cells.maybe('comment') ?? ''}`),
    ].map(text => text.toLowerCase())
    if (!words.every(word => texts.some(text => text.includes(word)))) continue
    const isByName = words.some(word => relation.name.toLowerCase().includes(word))
    matches.push({ relation, columns: own.map(cells => cells.text('name')), isByName })
  }
  return matches.sort((one, other) => Number(other.isByName) - Number(one.isByName))
}
