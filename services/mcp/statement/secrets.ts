/**
 * Refuses statements that show a secret of the catalogue: hidden settings, guarded columns, and views and functions
 * that read a secret.
 */
import type { Analysis, Name } from './analysis.ts'
import { exposureOf, type Guard } from './exposure.ts'
import type { CatalogueFacts, RevealingFacts } from './facts.ts'
import { guardedFunctions, guardedRelations, revealingText } from './guarded.ts'
import { StatementRefusal } from './refusal.ts'
import { refuseHiddenSettings, secretNames } from './settings.ts'

const inBodies = new RegExp(revealingText(secretNames), 'i')
const readsAllSettings = /pg_settings|show\s+all/i

const refused = (what: string, instead: string): StatementRefusal =>
  new StatementRefusal(
    'forbidden',
    `Refused: ${what}. That may hold a password, and is not shown. ${instead}Only show_secrets: true in the configuration of this database shows it.`,
  )

function guardsOf(relations: readonly Name[], facts: CatalogueFacts): Guard[] {
  const { secrets, searchPath, guardedColumns } = facts
  return guardedRelations.flatMap(({ schema, name, columns, condition }) => {
    const isNamed = relations.some(
      relation =>
        relation.name === name &&
        (schema === undefined ||
          (relation.schema === undefined ? searchPath.includes(schema) : relation.schema === schema)),
    )
    if (!isNamed || !secrets.has(condition) || condition === 'settings') return []
    return [{ name, hidden: columns, columns: guardedColumns.get(name) ?? new Set<string>() }]
  })
}

const reaches = (
  { schema, name }: Name,
  revealing: ReadonlyMap<string, readonly RevealingFacts[]>,
  { searchPath, secrets }: CatalogueFacts,
): boolean =>
  revealing
    .get(name)
    ?.some(
      one =>
        secrets.has(one.condition) && (schema === undefined ? searchPath.includes(one.schema) : schema === one.schema),
    ) === true

function refuseFunctions({ calls, attributes, bodies }: Analysis, facts: CatalogueFacts): void {
  const named = [...calls, ...attributes.map(({ name }) => ({ schema: undefined, name }))]
  for (const call of named) {
    const condition = guardedFunctions.get(call.name)
    if (condition !== undefined && facts.secrets.has(condition) && calls.some(({ name }) => name === call.name))
      throw refused(`${call.name} returns settings of functions, or statements of other sessions`, '')
    if (reaches(call, facts.revealing.functions, facts))
      throw refused(`the function ${call.name} reads settings or options in the catalogue that may contain secrets`, '')
  }
  if (bodies.some(body => inBodies.test(body) || (facts.hasHiddenSettings && readsAllSettings.test(body))))
    throw refused('the text of the function reads settings or options in the catalogue that may contain secrets', '')
}

/** @throws StatementRefusal */
export function refuseSecrets(analysis: Analysis, facts: CatalogueFacts): void {
  refuseHiddenSettings(analysis, facts)
  refuseFunctions(analysis, facts)
  for (const relation of analysis.relations) {
    if (relation.schema === 'pg_toast') throw refused('pg_toast contains values of other relations', '')
    if (reaches(relation, facts.revealing.views, facts))
      throw refused(`the view ${relation.name} reads settings or options in the catalogue that may contain secrets`, '')
  }
  const guards = guardsOf(analysis.relations, facts)
  if (guards.length === 0) return
  const exposure = exposureOf(analysis.tree, guards)
  if (exposure === undefined) return
  const columns = guards.flatMap(({ name, hidden }) => hidden.map(column => `${name}.${column}`)).join(', ')
  throw refused(
    `the statement ${exposure}, and so may show ${columns}`,
    'Name the other columns that you need, without * and NATURAL; for statements of other sessions, read pg://activity or call top_queries. ',
  )
}
