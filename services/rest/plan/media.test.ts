import { describe, expect, test } from 'vitest'
import type { MediaHandler } from '../../schema-cache/types.ts'
import { parseAccept } from '../parse/media.ts'
import { refusal } from '../testing/parsing.ts'
import { cacheOf, own } from '../testing/schema-cache.ts'
import { type MediaRules, negotiate } from './media.ts'

const handler = (
  mediaType: string,
  subject: string | undefined,
  aggregate: string | undefined = mediaType,
): MediaHandler => ({
  ...{ mediaType, type: own(mediaType), subject: subject === undefined ? undefined : own(subject) },
  aggregate: aggregate === undefined ? undefined : own(aggregate),
})
const ofItems = handler('text/xml', 'items')
const ofAll = handler('application/x-all', undefined)
const csv = handler('text/csv', 'items')
const json = handler('application/json', 'odd')
const any = handler('*/*', 'wild')
const cache = cacheOf({ mediaHandlers: [ofItems, ofAll, csv, json, any] })
const rules = (subject: string, more: Partial<MediaRules> = {}): MediaRules => ({
  ...{ cache, subject: own(subject), completeRows: true, plansEnabled: true, ndjsonEnabled: false },
  ...more,
})
const of = (accept: string | undefined, subject = 'things', more: Partial<MediaRules> = {}) =>
  negotiate(parseAccept(accept), rules(subject, more))

describe('an accepted media type is produced', () => {
  test.each([
    [undefined, { kind: 'json', stripNulls: false }, { kind: 'json' }],
    ['*/*', { kind: 'json', stripNulls: false }, { kind: 'json' }],
    ['application/json', { kind: 'json', stripNulls: false }, { kind: 'json' }],
    ['text/csv', { kind: 'csv' }, { kind: 'named', name: 'text/csv' }],
    ['application/geo+json', { kind: 'geojson' }, { kind: 'named', name: 'application/geo+json' }],
    ['application/vnd.pgrst.object+json', { kind: 'object', stripNulls: false }, { kind: 'object', stripNulls: false }],
    [
      'application/vnd.pgrst.object;nulls=stripped',
      { kind: 'object', stripNulls: true },
      { kind: 'object', stripNulls: true },
    ],
    [
      'application/vnd.pgrst.array+json;nulls=stripped',
      { kind: 'json', stripNulls: true },
      { kind: 'array', stripNulls: true },
    ],
    ['image/png, text/csv;q=0.5, application/json;q=0.4', { kind: 'csv' }, { kind: 'named', name: 'text/csv' }],
    ['image/png, */*', { kind: 'json', stripNulls: false }, { kind: 'json' }],
    ['application/x-all', { kind: 'handler', handler: ofAll }, { kind: 'named', name: 'application/x-all' }],
  ])('of %j', (accept, shape, mediaType) => {
    expect(of(accept)).toEqual({ shape, mediaType, explain: undefined, singular: mediaType.kind === 'object' })
  })

  test('by a handler of the relation, if full rows are selected', () => {
    expect(of('text/xml', 'items').shape).toEqual({ kind: 'handler', handler: ofItems })
    expect(of('text/csv', 'items').shape).toEqual({ kind: 'handler', handler: csv })
    expect(of('text/csv', 'items', { completeRows: false }).shape).toEqual({ kind: 'csv' })
    expect(of('application/json', 'odd')).toMatchObject({ shape: { handler: json }, mediaType: { kind: 'json' } })
    expect(of('text/anything', 'wild')).toMatchObject({ shape: { handler: any }, mediaType: { kind: 'any' } })
    expect(refusal(() => of('text/xml', 'items', { completeRows: false })).code).toBe('RST107')
    expect(refusal(() => of('text/xml', 'things')).code).toBe('RST107')
    const elsewhere = { subject: { schema: 'other', name: 'items' } }
    expect(refusal(() => of('text/xml', 'items', elsewhere)).code).toBe('RST107')
  })

  test('as lines of JSON, if they are enabled', () => {
    const name = 'application/x-ndjson'
    const enabled = { ndjsonEnabled: true }
    expect(of(name, 'things', enabled)).toMatchObject({ shape: { kind: 'ndjson' }, mediaType: { kind: 'named', name } })
    expect(of(name, 'wild', enabled).shape.kind).toBe('handler')
    expect(refusal(() => of(name)).code).toBe('RST107')
  })

  test('as its execution plan, if execution plans are enabled', () => {
    const mediaType = 'application/vnd.pgrst.plan+json; for="text/csv"; options=analyze'
    expect(of(mediaType)).toMatchObject({
      shape: { kind: 'csv' },
      mediaType: { kind: 'plan', format: 'json', of: { kind: 'named', name: 'text/csv' } },
      explain: { options: ['analyze'], format: 'json' },
    })
    expect(refusal(() => of(mediaType, 'things', { plansEnabled: false })).code).toBe('RST107')
    expect(refusal(() => of('application/vnd.pgrst.plan; for="image/png"')).code).toBe('RST107')
  })
})

test.each([
  ['image/png', 'image/png'],
  ['image/png, audio/ogg;q=0.5', 'image/png, audio/ogg'],
  ['constructor', 'constructor'],
  ['__proto__', '__proto__'],
  ['text/*', 'text/*'],
  ['application/vnd.pgrst.plan+json; for="image/png"', 'application/vnd.pgrst.plan+json; for="image/png"'],
])('%j is RST107', (accept, names) => {
  expect(refusal(() => of(accept))).toMatchObject({
    ...{ status: 406, code: 'RST107', message: `None of these media types are available: ${names}` },
  })
})
