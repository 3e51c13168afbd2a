import { expect, test } from 'vitest'
import { Parameters } from '../parameters.ts'
import { paradeSql, textsearchSql } from './statements.ts'

const table = {
  schema: 'public',
  name: 'documents',
  kind: 'r',
  oid: 1,
  textColumn: 'body',
  vectorColumn: 'embedding',
  idExpression: 't.id::text',
  rowExpression: 't.id::text',
  columns: new Map(),
}

test('pg_textsearch: names the index, omits rows without a match, and has the condition in the same statement', () => {
  const parameters = new Parameters()
  const sql = textsearchSql(
    table,
    { kind: 'pg_textsearch', name: 'documents_bm25' },
    'a?',
    't.tenant = 1',
    parameters,
    20,
  )
  expect(sql).toBe(`SELECT c.row_key, c.score FROM (
SELECT t.id::text AS row_key, - (t."body" <@> to_bm25query($1::text, $2::text)) AS score
FROM "public"."documents" AS t
WHERE t.tenant = 1
ORDER BY t."body" <@> to_bm25query($1::text, $2::text) LIMIT 20) AS c
WHERE c.score > 0 ORDER BY c.score DESC, c.row_key COLLATE "C"`)
  expect(parameters.values).toEqual(['a?', 'documents_bm25'])
})

test('pg_search: matches any of the words, with the functions of its version', () => {
  const sqlOf = (isOld: boolean) =>
    paradeSql(table, { kind: 'pg_search', key: 't."id"', isOld }, 'a', undefined, new Parameters(), 20)
  expect(sqlOf(false)).toContain('WHERE t."body" ||| $1::text\nORDER BY pdb.score(t."id") DESC LIMIT 20')
  expect(sqlOf(true)).toContain(
    'WHERE t."id" @@@ paradedb.match($2::text, $1::text)\nORDER BY paradedb.score(t."id") DESC LIMIT 20',
  )
})
