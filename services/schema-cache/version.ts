/**
 * Detects changes of a catalog without reading it completely. If two versions have the same fingerprint, they have the
 * same schemas, relations, columns, comments and privileges. Row estimates are excluded, because ANALYZE updates them
 * in place.
 */
import type { NamedRows, OwnStatement } from '../postgres/cells.ts'

/** `snapshot`: the visible transactions. If it is the same, no transaction has been committed in between. */
export type Version = { readonly snapshot: string; readonly fingerprint: string }

/**
 * All sources of the overview and the details. Functions, operator classes and collations occur in expressions and
 * index definitions.
 */
const catalogues = [
  ...['pg_namespace', 'pg_class', 'pg_attribute', 'pg_attrdef', 'pg_type', 'pg_enum', 'pg_constraint', 'pg_index'],
  ...['pg_inherits', 'pg_partitioned_table', 'pg_rewrite', 'pg_description', 'pg_proc', 'pg_opclass', 'pg_collation'],
  'pg_auth_members',
]

/**
 * `age` counts back from the next transaction. The distance to a fixed transaction is constant, and Postgres computes
 * it without converting `xmin` to text. Rows from initdb have no transaction, and have the maximum age.
 */
const transaction = `coalesce(nullif(pg_catalog.age(one.xmin), 2147483647)::bigint - pg_catalog.age('3'::pg_catalog.xid), 0)`

/**
 * A rewritten row has a new transaction, and a deleted row reduces the count. The order of the rows does not matter.
 */
const digestOf = (catalogue: string): string =>
  `(select pg_catalog.concat_ws(':', pg_catalog.count(*), pg_catalog.sum(pg_catalog.hashint8extended(${transaction}, 0))) from pg_catalog.${catalogue} one)`

const superuser = `(select role.rolsuper from pg_catalog.pg_roles role where role.rolname = current_user)`

/**
 * A restored server may reuse transaction ids, but its start time differs. A standby replays without transactions of
 * its own.
 */
const snapshot = `pg_catalog.concat_ws(' ', pg_catalog.pg_current_snapshot(), pg_catalog.pg_postmaster_start_time(), pg_catalog.pg_last_wal_replay_lsn())`

const fingerprint = `pg_catalog.concat_ws(' ', pg_catalog.pg_postmaster_start_time(), ${superuser}, ${catalogues.map(digestOf).join(', ')})`

/** `known`: the last version. Postgres computes the fingerprint only if the snapshot differs. */
export const versionStatement = (known: Version | undefined): OwnStatement => ({
  text: `select now.snapshot, case when now.snapshot is distinct from $1 then ${fingerprint} end from (select ${snapshot} as snapshot) now`,
  values: [known?.snapshot ?? null],
})

/** Reads the version from the rows of `versionStatement`. */
export function versionOf(rows: Pick<NamedRows, 'rows'> | undefined, known: Version | undefined): Version {
  const [snapshotText, found] = rows?.rows[0] ?? []
  const fingerprintText = found ?? known?.fingerprint
  if (!snapshotText || fingerprintText === undefined) throw new Error('the statement for the version has no row')
  return { snapshot: snapshotText, fingerprint: fingerprintText }
}
