import { describe, expect, test } from 'vitest'
import { endSteps, type SessionFacts, type TransactionMode, transactionSteps } from './transaction.ts'

const facts: SessionFacts = {
  schema: 'a"b',
  extraSearchPath: ['public', 'a"b'],
  role: 'somebody',
  claims: '{"role":"somebody"}',
  method: 'GET',
  path: '/things',
  headers: {
    accept: '*/*',
    'x-name': Buffer.from('Jörg').toString('latin1'),
    cookie: 'a=1; b="x=y"; bare;; c=\xc3\xa4',
  },
  timezone: undefined,
  settings: [['statement_timeout', '5s']],
  preRequest: undefined,
}
const mode: TransactionMode = { readOnly: false, isolationLevel: undefined, end: 'commit' }

/** The settings of the first SELECT, by name. */
function settings(changed: Partial<SessionFacts> = {}, how: Partial<TransactionMode> = {}): Record<string, unknown> {
  const { before } = transactionSteps({ ...facts, ...changed }, { ...mode, ...how })
  const values = before.find(({ text }) => text.includes('set_config'))?.values ?? []
  return Object.fromEntries(values.flatMap((name, index) => (index % 2 === 0 ? [[name, values[index + 1]]] : [])))
}

describe('the statements of a transaction', () => {
  test("set the role, the claims and the request's settings", () => {
    expect(settings()).toEqual({
      search_path: '"a""b", "public"',
      statement_timeout: '5s',
      role: 'somebody',
      'request.jwt.claims': '{"role":"somebody"}',
      'request.method': 'GET',
      'request.path': '/things',
      'request.headers': '{"accept":"*/*","x-name":"Jörg"}',
      'request.cookies': '{"a":"1","b":"\\"x=y\\"","bare":"","c":"ä"}',
    })
  })

  test('are read-only for reads, and can set a time zone', () => {
    expect(settings({}, { readOnly: true }).transaction_read_only).toBe('on')
    expect(settings({ timezone: 'Asia/Tokyo' }).timezone).toBe('Asia/Tokyo')
  })

  test('set the settings in order, and do not return their values', () => {
    const many = Array.from({ length: 150 }, (_, index) => [`app.settings.s${index}`, `${index}`] as const)
    const step = transactionSteps({ ...facts, settings: many }, mode).before.find(({ text }) =>
      text.includes('set_config'),
    )
    const [, ...groups] = step?.text.split('pg_catalog.num_nonnulls(') ?? []
    expect(step?.text).toMatch(
      /^SELECT pg_catalog\.num_nonnulls\(set_config\(\$1, \$2, true\), set_config\(\$3, \$4, true\)/,
    )
    expect(groups.map(group => group.match(/set_config/g)?.length)).toEqual([100, 57])
    expect(step?.values.slice(-2)).toEqual(['request.cookies', expect.any(String)])
  })

  test('contain no values in their text', () => {
    const { before } = transactionSteps({ ...facts, role: `x'; --` }, mode)
    expect(before.map(({ text }) => text).join()).not.toContain('x')
  })

  test('contain BEGIN only if it is necessary', () => {
    const texts = (how: Partial<TransactionMode>) => {
      const { before, after } = transactionSteps(facts, { ...mode, ...how })
      return [before[0]?.text.split(' ').slice(0, 4).join(' '), after.map(({ text }) => text)]
    }
    expect(texts({})).toEqual(['RESET ALL', []])
    expect(texts({ end: 'rollback' })).toEqual(['BEGIN', ['SET CONSTRAINTS ALL IMMEDIATE', 'ROLLBACK']])
    expect(texts({ end: 'decide' })).toEqual(['BEGIN', []])
    expect(texts({ isolationLevel: 'serializable' })).toEqual(['BEGIN ISOLATION LEVEL SERIALIZABLE', ['COMMIT']])
    expect(texts({ isolationLevel: `x'; --` })[0]).toBe('BEGIN')
    expect(endSteps('commit').map(({ text }) => text)).toEqual(['COMMIT'])
  })

  test('call the pre-request function by its quoted name', () => {
    const { before } = transactionSteps({ ...facts, preRequest: 'my schema.check' }, mode)
    expect(before.at(-1)?.text).toBe('SELECT "my schema"."check"()')
  })
})
