/** A request is asked of Postgres as if it were the first of its shape. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { RequestHead } from '../../http/message.ts'
import { parseRequest } from '../parse/request.ts'
import { type PlannedAction, plan as planRequest } from '../plan/index.ts'
import { render } from '../sql/index.ts'
import { headOf, sampleCache, sampleRules, sampleSettings } from '../testing/schema-cache.ts'
import { shapeOf } from './shape.ts'
import { Shapes } from './shapes.ts'

const basis = { rules: sampleRules, cache: sampleCache, planSettings: sampleSettings }
const anybody = { role: 'anybody', limits: {} }
const deliveries = ['whole', 'rows', 'made rows'] as const

type Told = { readonly canonical: string; readonly statements: readonly unknown[] } | { readonly fault: string }

const faultOf = (error: unknown): Told => ({ fault: String(error) })

function first(http: RequestHead): Told {
  try {
    const request = parseRequest(http, sampleRules)
    const plan = planRequest(request, request.action as PlannedAction, undefined, sampleCache, sampleSettings)
    return { canonical: request.query.canonical, statements: deliveries.map(delivery => render(plan, delivery)) }
  } catch (error) {
    return faultOf(error)
  }
}

function later(shapes: Shapes, http: RequestHead): Told {
  try {
    const { request, planned } = shapes.ask(http, anybody)
    const plan =
      planned?.plan ?? planRequest(request, request.action as PlannedAction, undefined, sampleCache, sampleSettings)
    const written = planned?.render ?? (delivery => render(plan, delivery))
    return { canonical: request.query.canonical, statements: deliveries.map(written) }
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
const said = fc.constantFrom(
  ...[
    'select=id,name',
    'select=*,clients(name),tasks(id)',
    'order=id.desc',
    'limit=2',
    'offset=eq.1',
    'or=(id.eq.1,id.eq.2)',
  ],
)
const query = fc.array(fc.oneof(filter, filter, filter, argument, said), { maxLength: 3 }).map(parts => parts.join('&'))
const resource = fc.constantFrom(
  ...[
    'GET /projects',
    'HEAD /projects',
    'DELETE /projects',
    'GET /clients',
    'GET /rpc/add',
    'GET /rpc/find',
    'GET /rpc/join',
  ],
)

/** The same request with other values, as far as its shape lets them be others. */
const alike = (http: RequestHead): RequestHead => ({
  ...http,
  query: shapeOf(http.query, http.path.startsWith('/rpc/'), index => `other${index}`)?.query ?? http.query,
})

describe('of one shape', () => {
  test('a later request has the statements, the canonical query or the fault of a first one', () => {
    let kept = 0
    fc.assert(
      fc.property(resource, query, (line, text) => {
        const http = headOf(`${line}?${text}`)
        const shapes = new Shapes(basis)
        const expected = first(http)
        // What stands before it is another one of its shape; then it is itself what has been kept.
        later(shapes, alike(http))
        expect(later(shapes, http)).toEqual(expected)
        expect(later(shapes, http)).toEqual(expected)
        if ('statements' in expected && alike(http).query !== http.query) kept++
      }),
      { numRuns: 3_000 },
    )
    expect(kept).toBeGreaterThan(300)
  })

  test('two requests share a plan', () => {
    const shapes = new Shapes(basis)
    const [one, other] = ['1', '%27;--'].map(id =>
      shapes.ask(headOf(`GET /projects?id=eq.${id}&name=not.gt.b`), anybody),
    )
    expect(other?.planned?.plan).toBe(one?.planned?.plan)
    expect(other?.planned?.render('whole').main.values).toEqual(["';--", 'b'])
    expect(other?.request.query.canonical).toBe('id=eq.%27%3B--&name=not.gt.b')
  })

  test.each(['Accept', 'Prefer', 'Range', 'Accept-Profile'])('those with another %s are not', header => {
    const shapes = new Shapes(basis)
    const http = headOf('GET /projects?id=eq.1')
    const sent = { Accept: 'text/csv', Prefer: 'count=exact', Range: '0-1', 'Accept-Profile': 'none' }
    const plain = shapes.ask(http, anybody).planned?.plan
    const headers = { [header.toLowerCase()]: sent[header as keyof typeof sent] }
    if (header === 'Accept-Profile') expect(() => shapes.ask({ ...http, headers }, anybody)).toThrow('schema')
    else expect(shapes.ask({ ...http, headers }, anybody).planned?.plan).not.toBe(plain)
  })

  test('roles with limits of their own have plans of their own', () => {
    const shapes = new Shapes(basis)
    const http = headOf('GET /projects')
    const free = shapes.ask(http, anybody).planned?.plan
    expect(free?.limits).toBeUndefined()
    const bound = shapes.ask(http, { role: 'guest', limits: { rows: 5 } }).planned?.plan
    expect(bound?.limits).toEqual({ role: 'guest', rows: 5, cost: undefined })
    expect(shapes.ask(http, { role: 'clerk', limits: {} }).planned?.plan).toBe(free)
  })

  test('an error names what was sent', () => {
    const shapes = new Shapes(basis)
    const http = headOf('GET /nothing?id=eq.4711')
    expect(() => shapes.ask(http, anybody).planned).not.toThrow()
    expect(() => shapes.ask(headOf('GET /projects?id=eqq.4711'), anybody)).toThrow('eqq.4711')
  })
})
