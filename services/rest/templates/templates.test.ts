/** A cached template gives the same statements as a request that is the first of its template. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { RequestHead } from '../../http/message.ts'
import { type Payload, payloadReader } from '../parse/payload.ts'
import { type ApiRequest, parseRequest } from '../parse/request.ts'
import { type PlannedAction, plan as planRequest } from '../plan/index.ts'
import { render } from '../sql/index.ts'
import { headOf, sampleCache, sampleRules, sampleSettings } from '../testing/schema-cache.ts'
import { type Planned, StatementTemplates } from './templates.ts'
import { extractValues } from './values.ts'

const basis = { rules: sampleRules, cache: sampleCache, planSettings: sampleSettings }
const anybody: Parameters<StatementTemplates['prepare']>[1] = { role: 'anybody', limits: {} }
const deliveries = ['whole', 'rows', 'made rows'] as const

type Described = { readonly canonical: string; readonly statements: readonly unknown[] } | { readonly fault: string }

const faultOf = (error: unknown): Described => ({ fault: String(error) })

type Sent = RequestHead & { readonly body?: string | undefined }

function payloadOf({ body: form }: ApiRequest, body = ''): Payload | undefined {
  const reader = form && payloadReader(form)
  reader?.push(Buffer.from(body))
  return reader?.end()
}

function first({ body, ...http }: Sent): Described {
  try {
    const request = parseRequest(http, sampleRules)
    const payload = payloadOf(request, body)
    const plan = planRequest(request, request.action as PlannedAction, payload, sampleCache, sampleSettings)
    return { canonical: request.query.canonical, statements: deliveries.map(delivery => render(plan, delivery)) }
  } catch (error) {
    return faultOf(error)
  }
}

function plannedBy(templates: StatementTemplates, { body, ...http }: Sent, requester = anybody): Planned {
  const { request, plan } = templates.prepare(http, requester)
  return plan(request.action as PlannedAction, payloadOf(request, body))
}

function later(templates: StatementTemplates, { body, ...http }: Sent): Described {
  try {
    const { request } = templates.prepare(http, anybody)
    return {
      canonical: request.query.canonical,
      statements: deliveries.map(plannedBy(templates, { ...http, body }).render),
    }
  } catch (error) {
    return faultOf(error)
  }
}

const value = fc.oneof(
  fc.constantFrom(
    'a*b',
    '1',
    '',
    'null',
    'eq.1',
    'not.eq.1',
    '{a,b}',
    '"x"',
    '(1,2)',
    'a.b',
    '%2Ename',
    '+',
    '%',
    '%C3%28',
  ),
  fc.string({ unit: 'grapheme', maxLength: 12 }).map(text => encodeURIComponent(text.toWellFormed())),
)
const operator = fc.constantFrom(
  ...['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'like', 'ilike', 'match', 'imatch', 'isdistinct', 'cs', 'cd', 'ov', 'adj'],
  ...['in', 'is', 'fts', 'fts(english)', 'plfts', 'eq(any)', 'like(all)', 'not.eq', 'not.like', 'not.in', 'nonsense'],
)
const column = fc.constantFrom('id', 'name', 'data->>a', 'data->0', 'color')
const other = fc.constantFrom(
  ...['clients.name', 'tasks.id', 'nothing', 'select', 'order', 'limit', 'tasks.limit', 'or', 'and', 'not.or'],
  ...['%73elect', 'columns', 'a', 'b', 'words', ''],
)
const name = fc.oneof({ arbitrary: column, weight: 5 }, { arbitrary: other, weight: 1 })
const filter = fc.tuple(name, operator, value).map(([one, way, text]) => `${one}=${way}.${text}`)
const argument = fc.tuple(name, value).map(([one, text]) => `${one}=${text}`)
const parameter = fc.constantFrom(
  ...[
    'select=id,name',
    'select=*,clients(name),tasks(id)',
    'order=id.desc',
    'limit=2',
    'offset=eq.1',
    'or=(id.eq.1,id.eq.2)',
  ],
)
const query = fc
  .array(fc.oneof(filter, filter, filter, argument, parameter), { maxLength: 3 })
  .map(parts => parts.join('&'))
const resource = fc.constantFrom(
  ...[
    'GET /projects',
    'HEAD /projects',
    'DELETE /projects',
    'GET /clients',
    'GET /rpc/add',
    'GET /rpc/find',
    'GET /rpc/join',
    'POST /projects',
    'PATCH /projects',
    'PUT /projects',
    'POST /rpc/find',
    'POST /rpc/add',
    'POST /rpc/take_json',
  ],
)

const content = fc.oneof(
  fc.constantFrom(
    '{}',
    '[]',
    '',
    '{"a":1,"b":2}',
    '{"name":"x"}',
    '[{"id":1},{"id":2}]',
    '[{"id":1},{"name":2}]',
    '1',
    '{"id":',
  ),
  fc.jsonValue().map(json => JSON.stringify(json)),
)

/** The same request with other values, within its template. */
const alike = (http: Sent): Sent => ({
  ...http,
  ...(http.body && { body: http.body.replaceAll(/[0-9]/g, '7') }),
  query: extractValues(http.query, http.path.startsWith('/rpc/'), index => `other${index}`)?.query ?? http.query,
})

describe('requests of one template', () => {
  test('a later request has the statements, canonical query or error of a first request', () => {
    let cached = 0
    fc.assert(
      fc.property(resource, query, content, (line, text, body) => {
        const http = { ...headOf(`${line}?${text}`), body }
        const templates = new StatementTemplates(basis)
        const expected = first(http)
        // Sends first a request with the same template, then the request itself, which uses the cache.
        later(templates, alike(http))
        expect(later(templates, http)).toEqual(expected)
        expect(later(templates, http)).toEqual(expected)
        if ('statements' in expected && alike(http).query !== http.query) cached++
      }),
      { numRuns: 3_000 },
    )
    expect(cached).toBeGreaterThan(300)
  })

  test('two requests share a plan, and so do two requests with bodies of the same keys', () => {
    const templates = new StatementTemplates(basis)
    const [one, other] = ['1', '%27;--'].map(id =>
      plannedBy(templates, headOf(`GET /projects?id=eq.${id}&name=not.gt.b`)),
    )
    expect(other?.plan).toBe(one?.plan)
    expect(other?.render('whole').main.values).toEqual(["';--", 'b'])
    const [first, second, ...others] = ['{"name":"a"}', '{"name":"b"}', '{"id":1}', '[{"name":"a"}]'].map((body, id) =>
      plannedBy(templates, { ...headOf(`PATCH /projects?id=eq.${id}`), body }),
    )
    expect(second?.plan).toBe(first?.plan)
    expect(second?.render('whole').write?.values.map(String)).toEqual(['{"name":"b"}', '1'])
    for (const one of others) expect(one.plan).not.toBe(first?.plan)
  })

  test.each(['Accept', 'Prefer', 'Range'])('requests with another %s do not', header => {
    const templates = new StatementTemplates(basis)
    const http = headOf('GET /projects?id=eq.1')
    const sent = { Accept: 'text/csv', Prefer: 'count=exact', Range: '0-1' }
    const headers = { [header.toLowerCase()]: sent[header as keyof typeof sent] }
    expect(plannedBy(templates, { ...http, headers }).plan).not.toBe(plannedBy(templates, http).plan)
  })

  test('an empty header differs from a missing one', () => {
    const templates = new StatementTemplates(basis)
    const http = headOf('GET /projects?id=eq.1')
    plannedBy(templates, { ...http, headers: { 'content-profile': '' } })
    expect(() => plannedBy(templates, { ...http, headers: { 'accept-profile': '' } })).toThrow('Invalid schema')
  })

  test('roles with their own limits have their own plans', () => {
    const templates = new StatementTemplates(basis)
    const http = headOf('GET /projects')
    const free = plannedBy(templates, http).plan
    expect(free.limits).toBeUndefined()
    const bound = plannedBy(templates, http, { role: 'guest', limits: { rows: 5 } }).plan
    expect(bound.limits).toEqual({ role: 'guest', rows: 5, cost: undefined })
    expect(plannedBy(templates, http, { role: 'clerk', limits: {} }).plan).toBe(free)
  })

  test('plans with a long statement are not cached', () => {
    const templates = new StatementTemplates(basis)
    const plans = (count: number) => {
      const embedded = Array.from({ length: count }, (_, index) => `c${index}:clients(name)`)
      return ['1', '2'].map(id => plannedBy(templates, headOf(`GET /projects?select=${embedded}&id=eq.${id}`)))
    }
    const [one, other] = plans(10)
    expect(other?.plan).toBe(one?.plan)
    const [long, longToo] = plans(60)
    expect(longToo?.plan).not.toBe(long?.plan)
    expect(longToo?.render('whole').main.values).toEqual(['2'])
  })

  test("a plan that is made before the body is known has the request's values", () => {
    const templates = new StatementTemplates(basis)
    const { request, plansWithoutBody } = templates.prepare(headOf('PATCH /projects?id=eq.4711'), anybody)
    const [plan] = plansWithoutBody(request.action as PlannedAction)
    expect(plan && render(plan).write?.values).toContain('4711')
  })

  test("an error contains the request's values", () => {
    expect(() => new StatementTemplates(basis).prepare(headOf('GET /projects?id=eqq.4711'), anybody)).toThrow(
      'eqq.4711',
    )
  })
})
