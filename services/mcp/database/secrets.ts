/** Catalogue queries that find the visible secrets, and the views and functions that expose them. */
import type { CatalogueFacts, RevealingFacts } from '../statement/facts.ts'
import { type GuardCondition, guardedRelations, revealingText } from '../statement/guarded.ts'
import { secretNames } from '../statement/settings.ts'
import type { Rows } from './access.ts'

const maximumRows = 50_000
const text = (value: string): string => `'${value.replaceAll("'", "''")}'`

/** Only constants of this program become part of the SQL. */
const guardedSql = `guarded(schema, relation, hidden, condition) AS (VALUES ${guardedRelations
  .map(
    ({ schema, name, columns, condition }) =>
      `(${schema === undefined ? 'NULL' : text(schema)}, ${text(name)}, ${text(`{${columns.join()}}`)}::text[], ${text(condition)})`,
  )
  .join(', ')}),
  classes AS (SELECT c.oid, g.* FROM guarded g JOIN pg_catalog.pg_class c ON c.relname = g.relation
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND n.nspname = COALESCE(g.schema, n.nspname))`

const columnsSql = `WITH ${guardedSql} SELECT classes.relation, a.attname FROM classes
  JOIN pg_catalog.pg_attribute a ON a.attrelid = classes.oid AND NOT a.attisdropped`

const secretSetting = text(`^[^=]*${secretNames}[^=]*=.`)

const conditionsSql = `WITH ${guardedSql} SELECT
    rolsuper OR pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE'),
    EXISTS (SELECT FROM pg_catalog.pg_proc p, pg_catalog.unnest(p.proconfig) AS setting WHERE setting ~* ${secretSetting}),
    EXISTS (SELECT FROM pg_catalog.pg_stats s JOIN classes ON classes.relation = s.tablename AND s.attname = ANY (classes.hidden)
      WHERE s.schemaname = 'pg_catalog')
  FROM pg_catalog.pg_roles WHERE rolname = current_user`

const bodyOf = `CASE WHEN p.prokind IN ('f', 'p') AND l.lanname = 'sql' THEN pg_catalog.pg_get_functiondef(p.oid) ELSE p.prosrc END`

/**
 * A view's rule lists the columns that it reads of each relation, as column number plus 7. The number 7 alone is the
 * whole row. Functions are found by their text, except functions of extensions and of Postgres.
 */
const revealingSql = `WITH RECURSIVE ${guardedSql},
  functions AS MATERIALIZED (SELECT p.oid, n.nspname, p.proname,
      CASE WHEN ${bodyOf} ~* ${text(revealingText(secretNames))} THEN 'always' ELSE 'settings' END AS condition
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace JOIN pg_catalog.pg_language l ON l.oid = p.prolang
    WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND l.lanname NOT IN ('c', 'internal') AND p.prokind <> 'a'
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = p.oid AND d.deptype = 'e')
      AND (${bodyOf} ~* ${text(revealingText(secretNames))} OR ${bodyOf} ~* 'pg_settings|show\\s+all')),
  rule AS MATERIALIZED (SELECT c.oid, n.nspname, c.relname, r.ev_action::text AS action
    FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_class c ON c.oid = r.ev_class JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('v', 'm') AND r.ev_type = '1' AND n.nspname NOT IN ('pg_catalog', 'information_schema') LIMIT ${maximumRows}),
  reads AS MATERIALIZED (SELECT rule.oid, m[1]::oid AS relation, pg_catalog.array_remove(pg_catalog.string_to_array(m[2], ' '), '')::int[] AS columns
    FROM rule, pg_catalog.regexp_matches(rule.action, ':relid (\\d+) [^{}]*:selectedCols \\(b([ \\d]*)\\)', 'g') AS m),
  called AS MATERIALIZED (SELECT DISTINCT rule.oid, m[1]::oid AS function
    FROM rule, pg_catalog.regexp_matches(rule.action, ':(?:funcid|opfuncid) (\\d+)', 'g') AS m),
  direct AS (
    SELECT reads.oid, classes.condition FROM reads JOIN classes ON classes.oid = reads.relation
      WHERE reads.columns && (SELECT pg_catalog.array_agg(a.attnum + 7) FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = classes.oid AND a.attname = ANY (classes.hidden)) OR 7 = ANY (reads.columns)
    UNION SELECT called.oid, functions.condition FROM called JOIN functions ON functions.oid = called.function
    UNION SELECT called.oid, 'settings' FROM called JOIN pg_catalog.pg_proc p ON p.oid = called.function WHERE p.proname = 'pg_show_all_settings'
    UNION SELECT called.oid, 'statements' FROM called JOIN pg_catalog.pg_proc p ON p.oid = called.function
      WHERE p.proname IN ('pg_stat_get_activity', 'pg_stat_get_backend_activity')
    UNION SELECT called.oid, 'functions' FROM called JOIN pg_catalog.pg_proc p ON p.oid = called.function WHERE p.proname = 'pg_get_functiondef'
    UNION SELECT called.oid, 'always' FROM called JOIN pg_catalog.pg_proc p ON p.oid = called.function WHERE p.proname = 'current_setting'
      AND pg_catalog.pg_get_viewdef(called.oid) ~* ${text(`current_setting\\s*\\(\\s*'[^']*${secretNames}`)}),
  reached AS (SELECT oid, condition FROM direct
    UNION SELECT reads.oid, reached.condition FROM reads JOIN reached ON reached.oid = reads.relation)
  SELECT 'view', rule.nspname, rule.relname, reached.condition FROM reached JOIN rule ON rule.oid = reached.oid
  WHERE NOT EXISTS (SELECT FROM classes WHERE classes.oid = rule.oid)
  UNION ALL SELECT 'function', nspname, proname, condition FROM functions LIMIT ${maximumRows}`

export const secretsSql = [columnsSql, conditionsSql, revealingSql]

type Found = Pick<CatalogueFacts, 'secrets' | 'guardedColumns' | 'revealing'>

function pushTo<Value>(groups: Map<string, Value[]>, name: string, value: Value): void {
  const group = groups.get(name)
  if (group === undefined) groups.set(name, [value])
  else group.push(value)
}

export function secretFactsOf(
  [columns, conditions, revealing]: readonly Rows[],
  isShown: boolean,
  hasHiddenSettings: boolean,
): Found {
  const [seesOthers, hasFunctions, hasStatistics] = conditions?.rows[0] ?? []
  const there: readonly (readonly [GuardCondition, boolean])[] = [
    ['always', true],
    ['settings', hasHiddenSettings],
    ['statements', seesOthers === 't'],
    ['functions', hasFunctions === 't'],
    ['statistics', hasStatistics === 't'],
  ]
  const guardedColumns = new Map<string, string[]>()
  for (const [relation, column] of columns?.rows ?? []) pushTo(guardedColumns, relation ?? '', column ?? '')
  const views = new Map<string, RevealingFacts[]>()
  const functions = new Map<string, RevealingFacts[]>()
  for (const [kind, schema, name, condition] of revealing?.rows ?? []) {
    // one of the values that the statement writes
    const found: RevealingFacts = { schema: schema ?? '', condition: (condition ?? 'always') as GuardCondition }
    pushTo(kind === 'view' ? views : functions, name ?? '', found)
  }
  return {
    secrets: new Set(isShown ? [] : there.flatMap(([condition, isThere]) => (isThere ? [condition] : []))),
    guardedColumns: new Map([...guardedColumns].map(([relation, names]) => [relation, new Set(names)])),
    revealing: { views, functions },
  }
}
