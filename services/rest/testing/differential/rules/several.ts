/**
 * Rules about requests with several faults, and about faults that may be hidden. The service's response equals
 * PostgREST's response to a request without one part.
 */

import type { Answer } from '../../../../testing/client.ts'
import { allLevels, levelsOf } from '../levels.ts'
import type { SentRequest } from '../request.ts'
import { shorter } from '../shrink.ts'
import { codeOf, isDone, isOfDatabase, type Rule } from './rule.ts'

const cast = /::[a-z_ ]+[\w[\]]*/gi

/** The body with only one of its rows. */
function rowsOf(body: string): readonly string[] {
  try {
    const rows: unknown = JSON.parse(body)
    return Array.isArray(rows) ? rows.map(row => JSON.stringify([row])) : []
  } catch {
    const [head = '', ...lines] = body.split('\n')
    return lines.map(line => `${head}\n${line}\n`)
  }
}

/**
 * Parameters that select a page. The judge adds an order to a page without an order, so neither can be removed alone.
 */
const ofPage = /(^|\.)(order|limit|offset)$/

/** The request without one of its parts, without casts, without pages, and for each single row of a level. */
function* parts(sent: SentRequest): Generator<SentRequest> {
  const select = sent.query.findIndex(([name, text]) => name === 'select' && cast.test(text))
  const text = sent.query[select]?.[1] ?? ''
  const casts = [...text.matchAll(cast)].map(([found]) => text.replace(found, ''))
  for (const one of [text.replaceAll(cast, ''), ...casts])
    if (one !== text) yield { ...sent, query: sent.query.with(select, ['select', one]) }
  if (sent.query.some(([name]) => ofPage.test(name)))
    yield { ...sent, query: sent.query.filter(([name]) => !ofPage.test(name)) }
  for (const body of rowsOf(sent.body ?? '')) yield { ...sent, body }
  for (const { prefix, relation } of allLevels(levelsOf(sent))) {
    const key = `${prefix}${relation?.columns[0]?.[0] ?? 'id'}`
    for (const number of [1, 2, 3, 4]) yield { ...sent, query: [...sent.query, [key, `eq.${number}`]] }
  }
  yield* shorter(sent)
}

/** Whether both responses report an unknown or ambiguous relationship. */
const areOfRelationships = (...both: readonly Answer[]): boolean => both.every(one => /^RST20[01]$/.test(codeOf(one)))

/** Whether both responses have Postgres's error, or one of them has no error. */
const areOfDatabase = (...both: readonly Answer[]): boolean =>
  both.some(isOfDatabase) && both.every(one => isOfDatabase(one) || isDone(one))

export const ofSeveral: readonly Rule[] = [
  {
    rule: 'Of several faults Postgres chooses which to report, and whether to evaluate a value that no row needs',
    source: [
      'docs/rest.md: Postgres decides which error is reported if it refuses several tables, values or embeddings',
      'docs/rest.md: of several unknown or ambiguous embeddings, one that a filter or an order names is reported first',
      'PostgREST 13, #2858 and #3965',
    ],
    instead: ({ sent, theirs, ours }) =>
      areOfRelationships(ours, theirs) ||
      (areOfDatabase(ours, theirs) && (sent.method !== 'HEAD' || isOfDatabase(ours)))
        ? parts(sent)
        : [],
  },
  {
    rule: 'HEAD makes no body, and so reports no fault that only a body would show',
    source: ['docs/rest.md: `HEAD` gets the same response as `GET`, except for errors that only the body would reveal'],
    instead: ({ sent, theirs, ours }) =>
      sent.method === 'HEAD' && !isDone(theirs) && ours.status < 500 ? parts(sent) : [],
  },
]
