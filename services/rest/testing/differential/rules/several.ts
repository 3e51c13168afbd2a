/** Rules of requests with several faults, and of faults that may not show: ours answers what PostgREST does without one of the parts of the request. */

import type { Answer } from '../../../../testing/client.ts'
import { allLevels, levelsOf } from '../levels.ts'
import type { Asked } from '../request.ts'
import { shorter } from '../shrink.ts'
import { codeOf, isDone, isOfDatabase, type Rule } from './rule.ts'

const cast = /::[a-z_ ]+[\w[\]]*/gi

/** The body with one of its rows alone. */
function rowsOf(body: string): readonly string[] {
  try {
    const rows: unknown = JSON.parse(body)
    return Array.isArray(rows) ? rows.map(row => JSON.stringify([row])) : []
  } catch {
    const [head = '', ...lines] = body.split('\n')
    return lines.map(line => `${head}\n${line}\n`)
  }
}

/** What chooses a page. To a page without an order the judge gives one, so neither can be left out alone. */
const ofPage = /(^|\.)(order|limit|offset)$/

/** The request without one of its parts, without casts, without pages, and of each row of a level alone. */
function* parts(asked: Asked): Generator<Asked> {
  const select = asked.query.findIndex(([name, text]) => name === 'select' && cast.test(text))
  const text = asked.query[select]?.[1] ?? ''
  const casts = [...text.matchAll(cast)].map(([found]) => text.replace(found, ''))
  for (const one of [text.replaceAll(cast, ''), ...casts])
    if (one !== text) yield { ...asked, query: asked.query.with(select, ['select', one]) }
  if (asked.query.some(([name]) => ofPage.test(name)))
    yield { ...asked, query: asked.query.filter(([name]) => !ofPage.test(name)) }
  for (const body of rowsOf(asked.body ?? '')) yield { ...asked, body }
  for (const { prefix, relation } of allLevels(levelsOf(asked))) {
    const key = `${prefix}${relation?.columns[0]?.[0] ?? 'id'}`
    for (const number of [1, 2, 3, 4]) yield { ...asked, query: [...asked.query, [key, `eq.${number}`]] }
  }
  yield* shorter(asked)
}

/** Whether both find a relationship that is unknown or ambiguous. */
const areOfRelationships = (...both: readonly Answer[]): boolean => both.every(one => /^RST20[01]$/.test(codeOf(one)))

/** Whether both find what Postgres finds, or one of them nothing. */
const areOfDatabase = (...both: readonly Answer[]): boolean =>
  both.some(isOfDatabase) && both.every(one => isOfDatabase(one) || isDone(one))

export const ofSeveral: readonly Rule[] = [
  {
    rule: 'Of several faults Postgres chooses which to report, and whether to evaluate a value that no row needs',
    source: [
      'docs/rest.md: of several relations, values and embeddings that Postgres refuses, it decides which',
      'docs/rest.md: of several embeddings that are not known or not clear, those come first',
      'PostgREST 13, #2858 and #3965',
    ],
    instead: ({ asked, theirs, ours }) =>
      areOfRelationships(ours, theirs) ||
      (areOfDatabase(ours, theirs) && (asked.method !== 'HEAD' || isOfDatabase(ours)))
        ? parts(asked)
        : [],
  },
  {
    rule: 'HEAD makes no body, and so reports no fault that only a body would show',
    source: [
      'docs/rest.md: `HEAD` is answered as `GET` is, but for what only a body would show to be wrong, or not to be read',
    ],
    instead: ({ asked, theirs, ours }) =>
      asked.method === 'HEAD' && !isDone(theirs) && ours.status < 500 ? parts(asked) : [],
  },
]
