/**
 * Role settings (ALTER ROLE .. SET). Postgres applies them at login, but not on SET ROLE, so each request sets them.
 */

/** The settings of requests as one role. */
export type RoleSettings = {
  readonly isolationLevel: string | undefined
  readonly settings: readonly (readonly [name: string, value: string])[]
}

/** For roles that the login role can become: settings that any user may change, or that the login role may set. */
export const roleSettingsQuery = `
  select role.rolname as role, split_part(entry, '=', 1) as name, substr(entry, strpos(entry, '=') + 1) as value
  from pg_db_role_setting stored
    join pg_roles role on role.oid = stored.setrole
    cross join lateral unnest(stored.setconfig) entry
    left join pg_settings known on known.name = split_part(entry, '=', 1)
  where stored.setdatabase in (0, (select oid from pg_database where datname = current_database()))
    and pg_has_role(current_user, role.oid, 'member') and role.rolname <> current_user
    and (known.context = 'user' or known.name is null and strpos(split_part(entry, '=', 1), '.') > 0
      or known.context = 'superuser' and has_parameter_privilege(known.name, 'set'))
  order by role.rolname, stored.setdatabase`

export type RoleSettingRow = { role: string; name: string; value: string }

/** By role. A setting for this database follows a setting for all databases, so it takes precedence. */
export function roleSettings(rows: readonly RoleSettingRow[]): ReadonlyMap<string, RoleSettings> {
  const byRole = Map.groupBy(rows, ({ role }) => role)
  return new Map(
    [...byRole].map(([role, list]) => {
      const isLevel = ({ name }: RoleSettingRow) => name === 'default_transaction_isolation'
      const settings = list.filter(one => !isLevel(one)).map(({ name, value }) => [name, value] as const)
      return [role, { isolationLevel: list.findLast(isLevel)?.value.toLowerCase(), settings }]
    }),
  )
}

/** The statement_timeout of the login role and its database. */
export const statementTimeoutQuery = `select setting::int8 as milliseconds from pg_settings where name = 'statement_timeout'`

const unitMs: Record<string, number> = { us: 0.001, ms: 1, '': 1, s: 1_000, min: 60_000, h: 3_600_000, d: 86_400_000 }

/**
 * The statement timeout in these settings, in Postgres's notation (manual, section 19.1.1). Undefined if they have no
 * statement timeout.
 */
export function statementTimeoutMs(settings: readonly (readonly [name: string, value: string])[]): number | undefined {
  const value = settings.findLast(([name]) => name === 'statement_timeout')?.[1]
  const [, number, unit = ''] = /^\s*([0-9.]+)\s*([a-z]*)\s*$/.exec(value ?? '') ?? []
  const factor = unitMs[unit]
  return number === undefined || factor === undefined ? undefined : Number(number) * factor
}
