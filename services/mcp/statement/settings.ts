/**
 * Postgres settings that may contain a password. They are hidden from all callers, even if the role may see them. They
 * are found by name, such as `primary_conninfo`, unless they are not text. pg://settings and statements hide the same
 * settings.
 */
import type { Analysis } from './analysis.ts'
import type { CatalogueFacts } from './facts.ts'
import { StatementRefusal } from './refusal.ts'

/** A pattern that is valid in JavaScript and in Postgres. */
export const secretNames = '(password|passphrase|secret|token|api_?key|conninfo)'

/**
 * A condition in SQL: whether a statement's text may contain a password. The role's privileges decide which other
 * queries are visible. Postgres stores ALTER ROLE and similar statements as written.
 */
export const mayContainSecret = (text: string): string =>
  `(${text} ~* '${secretNames}' and ${text} !~* '^\\s*(select|insert|update|delete|merge|with|values|table)\\M')`

const secretName = new RegExp(secretNames, 'i')

const isHidden = (name: string, { readableSettings: harmlessSettings }: CatalogueFacts): boolean =>
  secretName.test(name) && !harmlessSettings.has(name.toLowerCase())

const refused = (what: string): StatementRefusal =>
  new StatementRefusal('forbidden', `Refused: ${what}. Settings that may hold a password are not shown.`)

/** @throws StatementRefusal if the statement shows such a setting, or may show one */
export function refuseHiddenSettings({ settings, calls, relations }: Analysis, facts: CatalogueFacts): void {
  if (facts.secrets.size === 0) return
  for (const name of settings) {
    if (name === undefined) throw refused("current_setting needs the setting's name as a literal here")
    if (name !== 'all' && isHidden(name, facts)) throw refused(`${name.slice(0, 63)} is such a setting`)
  }
  if (!facts.hasHiddenSettings) return
  const showsAll =
    settings.includes('all') ||
    calls.some(({ name }) => name === 'pg_show_all_settings') ||
    relations.some(({ schema = 'pg_catalog', name }) => name === 'pg_settings' && schema === 'pg_catalog')
  if (showsAll)
    throw refused('some hidden settings have a value. Name the setting (SHOW work_mem), or read pg://settings')
}
