/**
 * The built-in resources: `pg://...` of the caller's selected database. Each is one JSON document with a maximum size.
 * If the database fails, the document reports the failure. If a resource does not exist, or the role may not see it,
 * the server reports it as unknown.
 */

import { cellsOf } from '../../postgres/cells.ts'
import { fenceTokens } from '../../retrieval/fence.ts'
import { atMostTokens } from '../../tokens/at-most.ts'
import { failureOf, noDatabase, tooLarge } from '../catalogue/failures.ts'
import type { Catalogue, Reading } from '../catalogue/index.ts'
import type { McpSettings } from '../configuration/types.ts'
import type { CallContext, Outcome } from '../core/call.ts'
import { CoreError } from '../core/errors.ts'
import type { ReadResult, ResourceDefinition, ResourceProvider, ResourceTemplate } from '../core/resource.ts'
import type { DatabaseAccess, OwnStatement } from '../database/access.ts'
import type { DatabaseEntries } from '../database/entries.ts'
import { cappedJson } from './cap.ts'
import { documentOf } from './documents.ts'
import { failureText } from './failure.ts'
import { extensionNames, settingNames } from './statements.ts'
import { type ResourceName, requestedResource, templates } from './uri.ts'

type ResourceParts = {
  readonly entries: DatabaseEntries
  readonly access: DatabaseAccess
  readonly catalogue: Catalogue
  readonly settings: Pick<McpSettings, 'limits' | 'disabled'>
}

const mimeType = 'application/json'
/** The tool name in the tags of statements. */
const tool = 'resources'

type Keyed<Definition> = Definition & { readonly key: ResourceName }

const definition = (key: ResourceName, name: string, description: string): Keyed<ResourceDefinition> => ({
  key,
  uri: `pg://${key}`,
  name,
  description,
  mimeType,
})

const definitions = [
  definition('system_info', 'postgresql_system_info', 'Version, platform, database, role and connection'),
  definition('schemas', 'schemas', 'Schemas with their numbers of tables and views'),
  definition('extensions', 'extensions', 'Installed extensions'),
  definition('settings', 'settings', 'Server settings, changed settings first'),
  definition('activity', 'activity', 'Sessions in this database and what they do'),
  definition('statistics', 'statistics', 'Figures of the database and of its largest tables'),
]

const template = (key: keyof typeof templates, description: string): Keyed<ResourceTemplate> => ({
  key,
  uriTemplate: templates[key],
  name: key,
  description,
  mimeType,
})

const templateDefinitions = [
  template('schema', 'Tables and views of a schema'),
  template('table', 'Columns, constraints and indexes of a table or view'),
  template('setting', 'One server setting'),
  template('extension', 'One extension'),
]

export function createResources({ entries, access, catalogue, settings }: ResourceParts): ResourceProvider {
  const { limits, disabled } = settings
  const isOn = ({ key, name }: Keyed<{ name: string }>) => !disabled.has(key) && !disabled.has(name)
  const withoutKey = <Definition>({ key: _, ...rest }: Keyed<Definition>) => rest
  const list = definitions.filter(isOn).map(withoutKey)
  const templateList = templateDefinitions.filter(isOn).map(withoutKey)
  const keys = new Set([...definitions, ...templateDefinitions].filter(isOn).map(({ key }) => key))

  async function read(uri: string, context: CallContext): Promise<Outcome<ReadResult>> {
    const requested = requestedResource(uri)
    if (requested === undefined) throw new CoreError({ kind: 'unknown resource', uri })
    const answer = (text: string): Outcome<ReadResult> => ({
      kind: 'result',
      result: { contents: [{ uri, mimeType, text }] },
    })
    const database = entries.current(context.caller)
    if (database === undefined) return answer(failureText(noDatabase))
    try {
      const document = await documentOf(requested, { database, context, tool }, { access, catalogue })
      if (document === undefined) throw new CoreError({ kind: 'unknown resource', uri })
      const { object, lists = [], more = '' } = document
      return answer(
        cappedJson(object, lists, limits.resultTokens - fenceTokens, atMostTokens, more) ?? failureText(tooLarge),
      )
    } catch (error) {
      const failure = failureOf(error, database.name)
      if (failure === undefined) throw error
      return answer(failureText(failure))
    }
  }

  /** Possible values of a template variable. */
  async function names(
    uriTemplate: string,
    variable: string,
    chosen: { readonly [variable: string]: string },
    reading: Reading,
  ): Promise<readonly string[]> {
    const column = async (statement: OwnStatement) => {
      const [rows] = await access.read(reading.database, [statement], reading.context, tool)
      return rows === undefined ? [] : cellsOf(rows).map(cells => cells.text('name'))
    }
    if (variable === 'schema' && (uriTemplate === templates.schema || uriTemplate === templates.table))
      return (await catalogue.overview(reading)).schemas.map(({ name }) => name)
    if (variable === 'table' && uriTemplate === templates.table) {
      const { relations } = await catalogue.overview(reading)
      const of = relations.filter(({ schema }) => chosen.schema === undefined || schema === chosen.schema)
      return [...new Set(of.map(({ name }) => name))]
    }
    if (variable === 'name' && uriTemplate === templates.setting) return column(settingNames)
    if (variable === 'name' && uriTemplate === templates.extension) return column(extensionNames)
    return []
  }

  return {
    list: () => list,
    templates: () => templateList,
    read: (uri, context) => {
      const requested = requestedResource(uri)
      return requested !== undefined && keys.has(requested.name) ? read(uri, context) : undefined
    },
    async complete(uriTemplate, variable, value, chosen, context) {
      const database = entries.current(context.caller)
      if (database === undefined) return []
      try {
        const all = await names(uriTemplate, variable, chosen, { database, context, tool })
        const wanted = value.toLowerCase()
        return all.filter(name => name.toLowerCase().startsWith(wanted))
      } catch (error) {
        // If the database fails, completion returns no values instead of an error.
        if (failureOf(error, database.name) === undefined) throw error
        return []
      }
    },
  }
}
