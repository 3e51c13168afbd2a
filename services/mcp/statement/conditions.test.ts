/** Which writes affect every row because of their form, and which definitions only add something. */
import { expect, test } from 'vitest'
import { analyse } from './analysis.ts'
import { parseStatement } from './parser.ts'

const analysed = async (text: string) => analyse(await parseStatement(text))

test.each([
  'true',
  '1 = 1',
  'random() < 2',
  'exists (select 1)',
  'exists (select id)',
  'exists (select t.id)',
  'exists (select 1 from u)',
  'exists (select u.id from u where u.id = 1)',
  'exists (select id from u where id = 1)',
  'not exists (select 1 from u where false)',
  '(select true)',
  '1 in (select id from u)',
  '1 = (select count(*) from t)',
  'id = id',
  't.id >= t.id',
  'id is not distinct from id',
  'id in (select id from t)',
  "name like '%'",
  "name ilike '%%'",
  "name ~ ''",
  "name ~ '.*'",
  'id is null or id is not null',
  'not (id = 1) or id = 1',
  'id = 1 or true',
  "name like '%' and exists (select 1)",
  'exists (select 1 from (select 1) as t where t.id = 1)',
])('a condition that is true for every row: %s', async condition => {
  for (const statement of [`DELETE FROM t WHERE ${condition}`, `UPDATE s.t SET id = 1 WHERE ${condition}`])
    expect((await analysed(statement)).hasUnfiltered, statement).toBe(true)
})

test.each([
  'id = 1',
  't.id is not null',
  'deleted_at is null',
  'id in (select id from u)',
  'id in (select id from t where id < 3)',
  'id in (select id from t limit 3)',
  'exists (select 1 where id = 3)',
  'exists (select 1 from u where u.id = t.id)',
  'not exists (select from u where u.id = t.id)',
  '(select t.id from u limit 1) = 1',
  "name like 'a%'",
  'id = 1 or id = 2',
  '(id, name) = (1, $$x$$)',
])('a condition that selects rows: %s', async condition => {
  for (const statement of [
    `DELETE FROM t WHERE ${condition}`,
    `WITH x AS (UPDATE t SET id = 1 WHERE ${condition} RETURNING *) TABLE x`,
  ])
    expect((await analysed(statement)).hasUnfiltered, statement).toBe(false)
})

test.each([
  ['DELETE FROM t USING u WHERE u.id = 1', true],
  ['DELETE FROM t USING u WHERE id = 1', true],
  ['DELETE FROM t AS x USING u WHERE u.id = x.id', false],
  ['DELETE FROM t AS x WHERE t.id = 1', true],
  ['UPDATE t SET a = 1 FROM (SELECT 1 AS one) AS v WHERE v.one = 1', true],
  ['UPDATE t SET a = v.a FROM v WHERE v.id = t.id', false],
  ['MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN DELETE', false],
  ['MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE', true],
  ['MERGE INTO t USING u ON u.id = 1 WHEN MATCHED AND t.id = 1 THEN UPDATE SET a = 1', false],
  ['MERGE INTO t USING u ON false WHEN NOT MATCHED THEN INSERT VALUES (1)', false],
  ['MERGE INTO t USING u ON t.id = u.id WHEN NOT MATCHED BY SOURCE THEN DELETE', true],
  ['MERGE INTO t USING u ON t.id = u.id WHEN NOT MATCHED BY SOURCE AND t.old THEN DELETE', false],
  ['INSERT INTO t SELECT * FROM t ON CONFLICT (id) DO UPDATE SET a = 1', true],
  ['INSERT INTO t VALUES (1) ON CONFLICT (id) DO UPDATE SET a = 1', false],
  ['INSERT INTO t SELECT * FROM t', false],
])('%s affects every row: %s', async (statement, touches) => {
  expect((await analysed(statement)).hasUnfiltered).toBe(touches)
})

test.each([
  ['CREATE TABLE t (id int)', true],
  ['CREATE TABLE t AS SELECT 1', true],
  ['CREATE INDEX ON t (id)', true],
  ['CREATE VIEW v AS SELECT 1', true],
  ['CREATE SCHEMA s', true],
  ["ALTER TYPE t ADD VALUE 'x'", true],
  ['ALTER TABLE t ADD COLUMN a int, ALTER a SET NOT NULL', true],
  ["COMMENT ON TABLE t IS 'x'", true],
  ['ALTER TABLE t RENAME a TO b', true],
  ['CREATE OR REPLACE VIEW v AS SELECT 1', false],
  ['ALTER TABLE t ADD COLUMN a int, DROP COLUMN b', false],
  ['ALTER TABLE t ALTER a TYPE text', false],
  ['ALTER TABLE t DISABLE ROW LEVEL SECURITY', false],
  ['ALTER TABLE t OWNER TO other', false],
  ['CREATE SCHEMA s CREATE TABLE t (id int) GRANT ALL ON t TO public', false],
  ['DROP TABLE t', false],
  ['TRUNCATE t', false],
  ['DO $$ BEGIN END $$', false],
  ["CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'", false],
  ['CREATE TRIGGER x BEFORE INSERT ON t EXECUTE FUNCTION f()', false],
  ['CREATE RULE x AS ON INSERT TO t DO INSTEAD DELETE FROM u', false],
  ['GRANT ALL ON t TO public', false],
  ['CREATE EXTENSION x', false],
])('%s only adds something: %s', async (statement, adds) => {
  expect((await analysed(statement)).isOrdinary).toBe(adds)
})
