/**
 * Runs amcheck on the tables and indexes of one database, in single-user mode: a server that does not listen and has no
 * other process. The results are passed in files, because single-user mode prints text for humans.
 */
import { quoteLiteral, quoteName } from './quote.ts'

/** Temporary schema of amcheck's functions; a schema of this name in the copy is dropped. */
const schema = quoteName('espalier verification')

/** Each statement ends with a semicolon and an empty line, as `postgres --single -j` requires. */
const script = (statements: readonly string[]): string => statements.map(text => `${text};\n\n`).join('')

/** From here on, the settings of a database's owner for all sessions do not apply. */
const sessionSettings = [
  'SET statement_timeout = 0',
  'SET lock_timeout = 0',
  'SET default_transaction_read_only = off',
  'SET search_path = pg_catalog',
  'SET row_security = off',
]

/**
 * `to`: a file for the version, whether there are checksums, and the databases that accept connections, as JSON in
 * base64. A database whose removal was interrupted (a limit of -2) accepts no connections and can only be dropped.
 */
export const listDatabases = (to: string): string =>
  script([
    ...sessionSettings,
    `COPY (SELECT translate(encode(convert_to(json_build_object(
       'version', current_setting('server_version'),
       'checksums', current_setting('data_checksums'),
       'databases', (SELECT json_agg(datname ORDER BY oid) 
         FROM pg_database WHERE datallowconn AND datconnlimit <> -2)
     )::text, 'UTF8'), 'base64'), E'\\n', '')) TO ${quoteLiteral(to)}`,
  ])

/**
 * Checks each relation separately, so that a broken relation does not hide others. Checks a table's toasted values,
 * that indexes contain every row of their table and, from 18 on, the parts of GIN indexes that can be checked.
 */
const checks = (most: number): string => `DO $check$
DECLARE
  relation record;
  fault record;
  relations int := 0;
  indexes int := 0;
  faults int := 0;
  findings jsonb := '[]';
BEGIN
  FOR relation IN
    SELECT c.oid, c.relkind, a.amname, format('%I.%I', n.nspname, c.relname) AS name
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_am a ON a.oid = c.relam
    LEFT JOIN pg_index i ON i.indexrelid = c.oid
    WHERE c.relpersistence = 'p' AND (
      c.relkind IN ('r', 'm', 't') AND a.amname = 'heap'
      OR c.relkind = 'i' AND i.indisvalid AND i.indisready AND i.indislive AND (
        a.amname = 'btree'
        OR a.amname = 'gin' AND to_regprocedure('${schema}.gin_index_check(regclass)') IS NOT NULL))
    ORDER BY c.oid
  LOOP
    BEGIN
      IF relation.relkind <> 'i' THEN
        relations := relations + 1;
        FOR fault IN SELECT * FROM ${schema}.verify_heapam(relation.oid, check_toast => true) LOOP
          faults := faults + 1;
          IF jsonb_array_length(findings) < ${most} THEN
            findings := findings || to_jsonb(format('%s, block %s: %s', relation.name, fault.blkno, fault.msg));
          END IF;
        END LOOP;
      ELSIF relation.amname = 'btree' THEN
        indexes := indexes + 1;
        PERFORM ${schema}.bt_index_check(relation.oid, true);
      ELSE
        indexes := indexes + 1;
        EXECUTE 'SELECT ${schema}.gin_index_check($1)' USING relation.oid::regclass;
      END IF;
    EXCEPTION WHEN OTHERS THEN
      faults := faults + 1;
      IF jsonb_array_length(findings) < ${most} THEN
        findings := findings || to_jsonb(format('%s: %s', relation.name, SQLERRM));
      END IF;
    END;
  END LOOP;
  INSERT INTO ${schema}.result VALUES (jsonb_build_object(
    'relations', relations, 'indexes', indexes, 'faults', faults, 'findings', findings));
END
$check$`

/** `to`: a file for the findings in the current database, as JSON in base64. */
export const checkRelations = (to: string, most: number): string =>
  script([
    ...sessionSettings,
    'CREATE EXTENSION IF NOT EXISTS plpgsql',
    'DROP EXTENSION IF EXISTS amcheck CASCADE',
    `DROP SCHEMA IF EXISTS ${schema} CASCADE`,
    `CREATE SCHEMA ${schema}`,
    `CREATE EXTENSION amcheck SCHEMA ${schema}`,
    `CREATE TABLE ${schema}.result (result jsonb)`,
    checks(most),
    `COPY (SELECT translate(encode(convert_to(result::text, 'UTF8'), 'base64'), E'\\n', '') FROM ${schema}.result) TO ${quoteLiteral(to)}`,
  ])
