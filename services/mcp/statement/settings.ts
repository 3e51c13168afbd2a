/**
 * Which settings of Postgres may hold a password, and so are not shown to anyone, whatever the role may see: by their names, as `primary_conninfo`, unless they hold no text. What pg://settings
 * hides and what a statement may not read is the same.
 */
import type { Analysis } from './analysis.ts'
import type { CatalogueFacts } from './facts.ts'
import { StatementRefusal } from './refusal.ts'

/** Reads alike in JavaScript and in Postgres. */
export const secretNames = '(password|passphrase|secret|token|api_?key|conninfo)'

/** In SQL: whether the text of a statement may hold a password. That of queries is for the role to see; ALTER ROLE and the like are kept as they were written. */
export const mayHoldSecret = (text: string): string =>
  `(${text} ~* '${secretNames}' and ${text} !~* '^\\s*(select|insert|update|delete|merge|with|values|table)\\M')`

const secretName = new RegExp(secretNames, 'i')

const isHidden = (name: string, { harmlessSettings }: CatalogueFacts): boolean =>
  secretName.test(name) && !harmlessSettings.has(name.toLowerCase())

const refused = (what: string): StatementRefusal =>
  new StatementRefusal('forbidden', `Refused: ${what}. Settings that may hold a password are not shown.`)

/** @throws StatementRefusal where what a statement shows has such a setting in it, or may have */
export function refuseHiddenSettings({ settings, calls, relations }: Analysis, facts: CatalogueFacts): void {
  if (facts.secrets.size === 0) return
  for (const name of settings) {
    if (name === undefined) throw refused('current_setting takes the name of its setting written out here')
    if (name !== 'all' && isHidden(name, facts)) throw refused(`${name.slice(0, 63)} is such a setting`)
  }
  if (!facts.hasHiddenSettings) return
  const showsAll =
    settings.includes('all') ||
    calls.some(({ name }) => name === 'pg_show_all_settings') ||
    relations.some(({ schema = 'pg_catalog', name }) => name === 'pg_settings' && schema === 'pg_catalog')
  if (showsAll) throw refused('some of them have a value here. Name the setting (SHOW work_mem), or read pg://settings')
}
