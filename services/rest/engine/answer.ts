/** Builds the response from a plan's result. Pure. */

import { type HeaderList, isHeaderName, isHeaderValue } from '../../http/headers.ts'
import type { HttpResponse } from '../../http/message.ts'
import { invalidResponseHeaders, invalidResponseStatus, offsetBeyondRows } from '../errors/catalogue.ts'
import { nextLink, pageQuery } from '../keyset/link.ts'
import { contentType } from '../parse/media.ts'
import { appliedPreferences, type Preferences } from '../parse/preferences.ts'
import { encoded } from '../parse/query.ts'
import type { ApiRequest } from '../parse/request.ts'
import type { Plan } from '../plan/types.ts'
import { serviceName } from '../product.ts'
import type { Outcome } from './outcome.ts'

const contentRange = (first: number, last: number, total: number | undefined): [string, string] => {
  const rows = total !== 0 && first <= last ? `${first}-${last}` : '*'
  return ['Content-Range', `${rows}/${total ?? '*'}`]
}

/** `response.headers`, which SQL can set: `[{"name": "value"}, ...]`. */
function databaseHeaders(text: string | undefined): HeaderList {
  if (text === undefined) return []
  let list: unknown
  try {
    list = JSON.parse(text)
  } catch {
    throw invalidResponseHeaders()
  }
  if (!Array.isArray(list)) throw invalidResponseHeaders()
  return list.map((one: unknown) => {
    const entries = typeof one === 'object' && one !== null && !Array.isArray(one) ? Object.entries(one) : []
    const [entry] = entries
    if (entry === undefined || entries.length !== 1) throw invalidResponseHeaders()
    const [name, value] = entry
    // Node writes one byte per character.
    const bytes = typeof value === 'string' ? Buffer.from(value, 'utf8').toString('latin1') : undefined
    if (bytes === undefined || !isHeaderName(name) || !isHeaderValue(bytes)) throw invalidResponseHeaders()
    return [name, bytes]
  })
}

/** `response.status`, which SQL can set: the status code's digits, without the reason phrase. */
function databaseStatus(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const status = Number(/^[0-9]+/.exec(text)?.[0])
  if (status >= 200 && status <= 999) return status
  throw invalidResponseStatus()
}

/** The service's header, unless SQL has set a header with the same name. */
const merged = (database: HeaderList, own: HeaderList): HeaderList => {
  const names = new Set(database.map(([name]) => name.toLowerCase()))
  return [...database, ...own.filter(([name]) => !names.has(name.toLowerCase()))]
}

/** The preferences that were applied. */
function applied(
  { action, preferences }: ApiRequest,
  plan: Plan,
  transactionEnd: Preferences['tx'],
): [string, string][] {
  const { kind } = action
  const isUpsert = plan.kind === 'write' && plan.write.kind === 'insert' && plan.write.onConflict !== undefined
  const isWrite = kind === 'insert' || kind === 'update' || kind === 'put' || kind === 'delete'
  const text = appliedPreferences({
    resolution: kind === 'insert' && isUpsert ? preferences.resolution : undefined,
    missing: kind === 'insert' || kind === 'update' ? preferences.missing : undefined,
    return: isWrite ? preferences.return : undefined,
    count: preferences.count,
    tx: transactionEnd,
    handling: preferences.handling,
    timezone: preferences.timezone,
    maxAffected: kind === 'update' || kind === 'delete' || kind === 'call' ? preferences.maxAffected : undefined,
  })
  return text === undefined ? [] : [['Preference-Applied', text]]
}

function page(
  plan: Extract<Plan, { kind: 'read' | 'call' }>,
  { rows, total }: Outcome,
): { status: number; header: [string, string] } {
  const first = plan.read.range.offset
  const last = first + rows - 1
  // With keyset pagination, the offset of a page is unknown.
  const isLater = plan.kind === 'read' && plan.keyset?.after !== undefined
  // A void function returns no rows, so any offset above 0 would be beyond the end.
  const isVoid = plan.kind === 'call' && plan.routine.returnsVoid
  if (total !== undefined && first > total && !isVoid) {
    throw offsetBeyondRows(first, total)
  }
  return {
    status: total !== undefined && rows < total ? 206 : 200,
    header: contentRange(first, isLater ? -1 : last, total),
  }
}

/**
 * Node's client and many proxies accept heads of at most 16 KiB. To stay below that, the service omits a longer
 * Content-Location.
 */
const longestLocation = 8_192

/** The encoded path of a relation, and the query that identifies the rows. */
const located = (relation: string, query: string): string =>
  `/${encodeURIComponent(relation)}${query === '' ? '' : `?${query}`}`

const encodedFilter = (filter: string): string => {
  const equals = filter.indexOf('=')
  return `${encoded(filter.slice(0, equals))}=${encoded(filter.slice(equals + 1))}`
}

type AnswerFacts = {
  readonly request: ApiRequest
  readonly plan: Plan
  readonly outcome: Outcome
  /** The transaction end that the client requested, if the client may choose it. */
  readonly transactionEnd: Preferences['tx']
  /** The cursor parameter. */
  readonly keysetParameter: string | undefined
  /** Whether the response warns if the request uses an aliased relation's name instead of its alias. */
  readonly warnsOfTargetNames: boolean
}

/** The warning's text in PostgREST 16. Omits a name that a header cannot contain. */
function targetNameWarning(names: Plan['targetNames']): HeaderList {
  const changes = names.flatMap(({ relation, alias }) =>
    /^[^"\\\p{C}]*$/u.test(relation + alias) ? [`\`${relation}\` to \`${alias}\``] : [],
  )
  if (changes.length === 0) return []
  const text =
    'Embedded resource was referenced by relation name even though it has an alias. This is deprecated and will stop working in a future release. ' +
    `Update ${changes.join(', ')} in query string filters, orders or limits.`
  // Node writes one byte per character.
  return [['Warning', `299 ${serviceName} "${Buffer.from(text).toString('latin1')}"`]]
}

export function answer(facts: AnswerFacts): HttpResponse {
  const { plan, outcome } = facts
  const status = databaseStatus(outcome.status)
  const database = databaseHeaders(outcome.headers)
  if (plan.body.explain !== undefined) {
    return { status: 200, headers: [['Content-Type', contentType(plan.body.mediaType)]], body: outcome.body }
  }
  const own = plan.kind === 'write' ? writeAnswer(facts, plan) : rowsAnswer(facts, plan)
  const warnings = facts.warnsOfTargetNames ? targetNameWarning(plan.targetNames) : []
  return { ...own, status: status ?? own.status, headers: merged(database, [...own.headers, ...warnings]) }
}

function rowsAnswer(
  { request, plan, outcome, transactionEnd, keysetParameter = '' }: AnswerFacts,
  rows: Extract<Plan, { kind: 'read' | 'call' }>,
): HttpResponse {
  const type: [string, string] = ['Content-Type', contentType(plan.body.mediaType)]
  const { status, header } = page(rows, outcome)
  const preferences = applied(request, plan, transactionEnd)
  if (rows.kind === 'call') {
    if (rows.routine.returnsVoid) return { status: 204, headers: [header, ...preferences], body: undefined }
    return { status, headers: [type, header, ...preferences], body: rows.headersOnly ? undefined : outcome.body }
  }
  const { keyset } = rows
  const { canonical } = request.query
  const query = keyset === undefined ? canonical : pageQuery(keyset, keysetParameter, keyset.cursor)
  const locationText = located(rows.read.relation.name, query)
  const location: HeaderList = locationText.length <= longestLocation ? [['Content-Location', locationText]] : []
  const next = keyset === undefined ? [] : nextLink(keyset, keysetParameter, outcome.location)
  return {
    status,
    headers: [type, header, ...location, ...next, ...preferences],
    body: rows.headersOnly ? undefined : outcome.body,
  }
}

function writeAnswer(
  { request, outcome, transactionEnd }: AnswerFacts,
  plan: Extract<Plan, { kind: 'write' }>,
): HttpResponse {
  const { write, wants } = plan
  const preferences = applied(request, plan, transactionEnd)
  const type: [string, string] = ['Content-Type', contentType(plan.body.mediaType)]
  const isShown = wants === 'representation'
  const { rows } = outcome
  const total = plan.countsExactly ? rows : undefined
  const inserted = rows - outcome.updated
  switch (write.kind) {
    case 'insert': {
      if (write.isPut) {
        const status = !isShown ? 204 : inserted > 0 ? 201 : 200
        return {
          status,
          headers: isShown ? [type, ...preferences] : preferences,
          body: isShown ? outcome.body : undefined,
        }
      }
      const merges = request.preferences.resolution === 'merge-duplicates'
      const location: HeaderList =
        wants === 'headers-only' && rows === 1 && outcome.location.length > 0
          ? [
              [
                'Location',
                `/${encodeURIComponent(plan.relation.name)}?${outcome.location.map(encodedFilter).join('&')}`,
              ],
            ]
          : []
      const headers: HeaderList = [...location, contentRange(1, 0, total), ...preferences]
      return {
        status: merges && inserted <= 0 ? 200 : 201,
        headers: isShown ? [type, ...headers] : headers,
        body: isShown ? outcome.body : undefined,
      }
    }
    case 'update': {
      const headers: HeaderList = [contentRange(0, rows - 1, total), ...preferences]
      return isShown
        ? { status: 200, headers: [type, ...headers], body: outcome.body }
        : { status: 204, headers, body: undefined }
    }
    case 'delete': {
      const headers: HeaderList = [contentRange(1, 0, total), ...preferences]
      return isShown
        ? { status: 200, headers: [type, ...headers], body: outcome.body }
        : { status: 204, headers, body: undefined }
    }
  }
}
