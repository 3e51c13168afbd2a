/**
 * The places where the catalogue shows secrets that SHOW and pg_settings hide: settings of roles and functions,
 * passwords, options of servers and subscriptions, and statements of other sessions. The columns listed here are hidden
 * from all callers, even if the role may see them.
 */

/**
 * When a guard applies. `always`: the column can contain secrets at any time. `settings`, `functions`, `statistics`:
 * the catalogue contains such a value now. `statements`: the login sees statements of other roles, for example ALTER
 * ROLE ... PASSWORD.
 */
export type GuardCondition = 'always' | 'settings' | 'functions' | 'statistics' | 'statements'

type GuardedRelation = {
  /** undefined: any schema, for relations of extensions. */
  readonly schema: 'pg_catalog' | 'information_schema' | undefined
  readonly name: string
  readonly columns: readonly string[]
  readonly condition: GuardCondition
}

const guard = (
  schema: GuardedRelation['schema'],
  name: string,
  columns: string,
  condition: GuardCondition = 'always',
): GuardedRelation => ({ schema, name, columns: columns.split(' '), condition })

export const guardedRelations: readonly GuardedRelation[] = [
  guard('pg_catalog', 'pg_authid', 'rolpassword'),
  guard('pg_catalog', 'pg_shadow', 'passwd useconfig'),
  guard('pg_catalog', 'pg_roles', 'rolconfig'),
  guard('pg_catalog', 'pg_user', 'useconfig'),
  guard('pg_catalog', 'pg_db_role_setting', 'setconfig'),
  guard('pg_catalog', 'pg_user_mapping', 'umoptions'),
  guard('pg_catalog', 'pg_user_mappings', 'umoptions'),
  guard('pg_catalog', 'pg_foreign_server', 'srvoptions'),
  guard('pg_catalog', 'pg_foreign_data_wrapper', 'fdwoptions'),
  guard('pg_catalog', 'pg_foreign_table', 'ftoptions'),
  guard('pg_catalog', 'pg_subscription', 'subconninfo'),
  guard('pg_catalog', 'pg_stat_wal_receiver', 'conninfo'),
  guard('information_schema', 'user_mapping_options', 'option_value'),
  guard('information_schema', 'foreign_server_options', 'option_value'),
  guard('information_schema', 'foreign_data_wrapper_options', 'option_value'),
  guard('information_schema', 'foreign_table_options', 'option_value'),
  guard('information_schema', '_pg_user_mappings', 'umoptions srvoptions'),
  guard('information_schema', '_pg_foreign_servers', 'srvoptions fdwoptions'),
  guard('information_schema', '_pg_foreign_data_wrappers', 'fdwoptions'),
  guard('information_schema', '_pg_foreign_tables', 'ftoptions'),
  guard('pg_catalog', 'pg_proc', 'proconfig', 'functions'),
  guard('pg_catalog', 'pg_settings', 'setting boot_val reset_val', 'settings'),
  guard('pg_catalog', 'pg_stats', 'most_common_vals histogram_bounds most_common_elems', 'statistics'),
  guard('pg_catalog', 'pg_statistic', 'stavalues1 stavalues2 stavalues3 stavalues4 stavalues5', 'statistics'),
  guard('pg_catalog', 'pg_stat_activity', 'query', 'statements'),
  guard(undefined, 'pg_stat_statements', 'query', 'statements'),
]

/** Functions of Postgres and of pg_stat_statements that return the same secrets. */
export const guardedFunctions: ReadonlyMap<string, GuardCondition> = new Map([
  ['pg_get_functiondef', 'functions'],
  ['pg_stat_get_activity', 'statements'],
  ['pg_stat_get_backend_activity', 'statements'],
  ['pg_stat_statements', 'statements'],
])

/** Column names that a function body contains only if it reads a guarded column. */
const revealingColumns = guardedRelations
  .filter(({ condition }) => condition === 'always')
  .flatMap(({ columns }) => columns)
  .filter(column => !['passwd', 'conninfo', 'option_value'].includes(column))
const always = guardedRelations.filter(({ condition }) => condition === 'always').map(({ name }) => name)

/**
 * A regular expression, valid in JavaScript and Postgres, that finds such reads in a function's body. `secretNames` is
 * the pattern for names of settings. The expression finds only literal names. It does not find a function that
 * assembles a statement from parts.
 */
export const revealingText = (secretNames: string): string => {
  const own = `(pg_catalog\\.|information_schema\\.)?"?(${always.join('|')})"?([^a-z0-9_]|$)`
  const anywhere = [
    ...revealingColumns,
    'pg_shadow',
    'pg_file_settings',
    'pg_show_all_settings',
    'pg_db_role_setting',
    '[a-z_]+_options[^a-z0-9_].*option_value',
  ].join('|')
  return `(^|[^a-z0-9_])((${anywhere})([^a-z0-9_]|$)|current_setting\\s*\\(\\s*'[^']*${secretNames}|([*]\\s+from|table)\\s+${own})`
}
