/** Finds calls wherever the grammar allows them, and also casts, operators and relations of a statement. */
import { expect, test } from 'vitest'
import { analyse } from './analysis.ts'
import { parseStatement } from './parser.ts'

const analysed = async (text: string) => analyse(await parseStatement(text))

/** `@` marks the position of the call. */
const statements: readonly string[] = [
  'SELECT @',
  'SELECT DISTINCT ON (@) n FROM t',
  'SELECT n FROM t WHERE @ BETWEEN SYMMETRIC 1 AND 2',
  'SELECT n FROM t WHERE n BETWEEN 1 AND @',
  'SELECT n FROM t WHERE n IN (1, @)',
  'SELECT n FROM t WHERE n = ANY (ARRAY[@])',
  'SELECT n FROM t WHERE (n, 1) = (SELECT @, 1)',
  'SELECT n FROM t WHERE (n, @) < ROW(1, 2)',
  "SELECT n FROM t WHERE x LIKE 'a' ESCAPE @",
  'SELECT n FROM t WHERE NOT EXISTS (SELECT FROM u WHERE @ IS NOT NULL)',
  'SELECT n FROM t WHERE n IS DISTINCT FROM @',
  'SELECT n FROM t GROUP BY GROUPING SETS ((n), (@))',
  'SELECT n FROM t GROUP BY CUBE (@)',
  'SELECT n FROM t GROUP BY n HAVING @ > 1',
  'SELECT n FROM t ORDER BY @ DESC NULLS LAST',
  'SELECT n FROM t ORDER BY n LIMIT @',
  'SELECT n FROM t OFFSET @',
  'SELECT n FROM t FETCH FIRST (@) ROWS ONLY',
  'SELECT n FROM t ORDER BY n FETCH FIRST (@) ROWS WITH TIES',
  'SELECT n FROM t TABLESAMPLE system (@) REPEATABLE (1)',
  'SELECT n FROM t TABLESAMPLE system (1) REPEATABLE (@)',
  'SELECT * FROM @ AS x',
  'SELECT * FROM @ WITH ORDINALITY',
  'SELECT * FROM ROWS FROM (generate_series(1, 2), @)',
  'SELECT * FROM generate_series(1, @)',
  'SELECT * FROM t, LATERAL (SELECT @) x',
  'SELECT * FROM t JOIN u ON @ = 1',
  'SELECT * FROM (VALUES (1), (@)) v',
  'SELECT * FROM t LEFT JOIN (SELECT @ AS a) x USING (a)',
  'WITH x AS MATERIALIZED (SELECT @) SELECT 1',
  'WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT @ FROM x) SELECT * FROM x',
  'SELECT 1 UNION SELECT @',
  '(SELECT 1 EXCEPT ALL SELECT @) INTERSECT SELECT 2',
  'SELECT sum(n) OVER (PARTITION BY @) FROM t',
  'SELECT sum(n) OVER w FROM t WINDOW w AS (ORDER BY @)',
  'SELECT sum(n) OVER (ORDER BY n ROWS BETWEEN @ PRECEDING AND CURRENT ROW) FROM t',
  'SELECT count(*) FILTER (WHERE @ = 1) FROM t',
  'SELECT array_agg(n ORDER BY @) FROM t',
  'SELECT percentile_cont(@) WITHIN GROUP (ORDER BY n) FROM t',
  'SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY @) FROM t',
  'SELECT make_interval(days => @)',
  'SELECT concat(VARIADIC ARRAY[@])',
  'SELECT CASE @ WHEN 1 THEN 2 END',
  'SELECT CASE WHEN true THEN 1 ELSE @ END',
  'SELECT COALESCE(NULL, @)',
  'SELECT GREATEST(1, @)',
  'SELECT NULLIF(1, @)',
  'SELECT ARRAY[[1], [@]]',
  'SELECT ARRAY(SELECT @)',
  'SELECT (ARRAY[1])[@]',
  'SELECT (ARRAY[1])[1:@]',
  'SELECT (@).field',
  'SELECT (@).*',
  'SELECT ROW(1, @)',
  'SELECT @::text',
  'SELECT CAST(@ AS numeric(3, 2))',
  'SELECT @ COLLATE "C"',
  'SELECT now() AT TIME ZONE @::text',
  'SELECT EXTRACT(year FROM @)',
  'SELECT SUBSTRING(x FROM @ FOR 2) FROM t',
  "SELECT TRIM(BOTH @ FROM 'x')",
  "SELECT POSITION('a' IN @)",
  "SELECT OVERLAY('abc' PLACING @ FROM 1)",
  'SELECT (now(), @) OVERLAPS (now(), now())',
  'SELECT @ IS NULL OR @ IS NOT TRUE',
  'SELECT - @',
  'SELECT XMLELEMENT(NAME a, XMLATTRIBUTES(@ AS b), 1)',
  'SELECT XMLFOREST(@ AS a)',
  'SELECT XMLSERIALIZE(CONTENT @ AS text)',
  "SELECT * FROM XMLTABLE('/a' PASSING @ COLUMNS b int PATH 'b')",
  "SELECT * FROM XMLTABLE('/a' PASSING d COLUMNS b int PATH 'b' DEFAULT @)",
  "SELECT JSON_OBJECT('a': @)",
  'SELECT JSON_ARRAY(1, @)',
  'SELECT JSON_ARRAY(SELECT @)',
  'SELECT JSON_OBJECTAGG(@: 1) FROM t',
  'SELECT JSON_ARRAYAGG(@ ORDER BY 1) FROM t',
  "SELECT JSON_QUERY(j, '$' PASSING @ AS x) FROM t",
  "SELECT JSON_VALUE(@, '$' DEFAULT 1 ON EMPTY)",
  "SELECT JSON_VALUE(j, '$' DEFAULT @ ON ERROR) FROM t",
  "SELECT * FROM JSON_TABLE(@, '$' COLUMNS (a int PATH '$'))",
  "SELECT JSON_SCALAR(@), JSON(@), JSON_SERIALIZE('1')",
  'SELECT @ IS JSON',
  'VALUES (1, @)',
  'EXPLAIN (ANALYZE) SELECT @',
  'INSERT INTO t VALUES (@)',
  'INSERT INTO t VALUES (1) ON CONFLICT (n) DO UPDATE SET n = @ WHERE t.n = 1',
  'INSERT INTO t VALUES (1) RETURNING @',
  'UPDATE t SET (a, b) = (SELECT 1, @) WHERE n = 1',
  'UPDATE t SET a[@] = 1 WHERE n = 1',
  'DELETE FROM t USING @ AS x WHERE n = 1',
  'MERGE INTO t USING u ON t.n = u.n WHEN MATCHED AND @ = 1 THEN UPDATE SET n = 1 WHEN NOT MATCHED THEN INSERT VALUES (@)',
  'CALL @',
  'CREATE TABLE x AS SELECT @',
  'CREATE VIEW x AS SELECT @',
  'CREATE TABLE x (n int DEFAULT @)',
  'ALTER TABLE x ALTER n TYPE int USING @',
  'CREATE INDEX ON t ((@))',
]

test.each(statements)('finds the call in %s', async statement => {
  for (const call of ['hidden(n)', '"hidden"(n)', 'apart.hidden(n)', 'U&"hidd\\0065n"(n)', 'HIDDEN (n)']) {
    const { calls } = await analysed(statement.replaceAll('@', call))
    expect(calls.find(({ name }) => name === 'hidden')).toEqual({
      name: 'hidden',
      schema: call.startsWith('apart') ? 'apart' : undefined,
      arguments: 1,
    })
  }
})

test('finds casts, operators, attributes and relations', async () => {
  const found = await analysed(
    `SELECT x::apart.kind, CAST(y AS kind2[]), kind3 'v', a OPERATOR(s.===) b, c ~~~ d, e <@> ALL (SELECT 1), t.attribute, (t).second, (f(t)).third
     FROM s.rel AS t, ONLY other ORDER BY g USING >>>`,
  )
  expect(found.types.map(({ name }) => name)).toEqual(['kind', 'kind2', 'kind3'])
  expect(found.operators.map(({ schema, name }) => [schema, name])).toEqual(
    expect.arrayContaining([
      ['s', '==='],
      [undefined, '~~~'],
      [undefined, '<@>'],
      [undefined, '>>>'],
    ]),
  )
  expect(found.attributes).toEqual([
    { name: 'attribute', isOfAny: false },
    { name: 'second', isOfAny: true },
    { name: 'third', isOfAny: true },
  ])
  expect(found.relations).toEqual([
    { schema: 's', name: 'rel' },
    { schema: undefined, name: 'other' },
  ])
})
