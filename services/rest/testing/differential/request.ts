/** Generates complete requests: reads, writes, calls and invalid ones, with headers and bodies. */
import { createHmac } from 'node:crypto'
import { type Parameter, parameters } from './query.ts'
import type { Random } from './random.ts'
import { type Callable, functions, type Relation, relations } from './resources.ts'
import { jsonValue, value } from './values.ts'

/** One request, in pieces that can be removed to shorten the request. */
export type SentRequest = {
  readonly method: string
  /** The encoded text. */
  readonly path: string
  /** The text without encoding. */
  readonly query: readonly Parameter[]
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
}

export const isWrite = ({ method, path }: SentRequest): boolean =>
  /^(POST|PATCH|PUT|DELETE)$/.test(method) && !path.startsWith('/rpc')

export const secret = 'a passphrase of tests, longer than 32 characters'

const part = (text: string | object) =>
  Buffer.from(typeof text === 'string' ? text : JSON.stringify(text)).toString('base64url')
function token(claims: object, header: object = { alg: 'HS256', typ: 'JWT' }, key = secret): string {
  const signed = `${part(header)}.${part(claims)}`
  return `${signed}.${createHmac('sha256', key).update(signed).digest('base64url')}`
}
const goodTokens = [
  token({ role: 'member', sub: 'ada' }),
  token({ role: 'guest' }),
  token({ role: 'member', sub: 'bob', exp: 4_000_000_000 }),
  token({ sub: 'ada' }),
]
const badTokens = [
  token({ role: 'member', exp: 1 }),
  token({ role: 'member', nbf: 4_000_000_000 }),
  token({ role: 'member' }, { alg: 'HS256' }, 'another passphrase of the same length, or so'),
  token({ role: 'nobody at all' }),
  token({ role: 'member' }, { alg: 'none' }),
  'a.b.c',
  'a.b',
  '',
  'x',
]

function authorization(random: Random): string {
  if (random.percent(75)) return `${random.word('Bearer bearer')} ${random.pick(goodTokens)}`
  return random.percent(90)
    ? `Bearer ${random.pick(badTokens)}`
    : random.pick(['Basic YTpi', 'Bearer', 'bearer  x', random.pick(goodTokens)])
}

const vendor = 'application/vnd.pgrst.'
const accepts = [
  'application/json',
  'text/csv',
  '*/*',
  'application/json',
  `${vendor}object+json`,
  `${vendor}object`,
  `${vendor}object+json;nulls=stripped`,
  `${vendor}array+json;nulls=stripped`,
  `${vendor}array`,
  'text/html',
  'application/vnd.list+json',
  'application/octet-stream',
  'text/plain',
  'text/csv;q=0.5, application/json',
  'image/png',
  'image/png, */*',
  'text/*',
  'application/*',
  `${vendor}plan`,
  `${vendor}plan+json`,
  `${vendor}plan+text; for="text/csv"`,
  'application/json; charset=utf-8',
  'Text/CSV',
  'nonsense',
  '',
  'application/openapi+json',
  'application/json;q=0.1, text/csv;q=0.9',
  `${vendor}object+json, application/json`,
  'text/xml',
  'application/geo+json',
  `${vendor}plan+json; for="application/vnd.pgrst.object+json"`,
  `${vendor}plan; options=analyze|verbose`,
  `${vendor}plan+text; for="text/html"; options=settings`,
  `${vendor}object;nulls=stripped, text/csv`,
] // Prettier would write each item on its own line.

function prefer(random: Random): string {
  const all = random.list(1, 3, () =>
    random.percent(92)
      ? random.pick([
          'return=representation',
          'return=representation',
          'return=minimal',
          'return=headers-only',
          'count=exact',
          'count=exact',
          'count=planned',
          'count=estimated',
          'resolution=merge-duplicates',
          'resolution=ignore-duplicates',
          'missing=default',
          'missing=null',
          'handling=strict',
          'handling=lenient',
          'tx=rollback',
          'timezone=Europe/Berlin',
          'max-affected=1',
          'max-affected=10',
        ])
      : random.pick([
          'nonsense',
          'return=x',
          'tx=commit',
          'timezone=Nowhere',
          'count=',
          'handling',
          'RETURN=minimal',
          'a=b; c=d',
          'max-affected=x',
          'tx=rollback;x=1',
        ]),
  )
  return all.join(random.pick([', ', ',', ' , ']))
}

function headers(random: Random, kind: 'read' | 'write' | 'call'): Record<string, string> {
  const all: Record<string, string> = {}
  if (random.percent(30)) all.Accept = random.pick(accepts)
  if (random.percent(kind === 'write' ? 75 : 30)) all.Prefer = prefer(random)
  // Writes must be rolled back. If the responses differ, the written rows may differ, too.
  if (kind !== 'read') all.Prefer = all.Prefer?.replace('tx=commit', 'tx=rollback') ?? ''
  if (all.Prefer === '') delete all.Prefer
  if (random.percent(kind === 'write' ? 3 : 10))
    all.Range = random.percent(80)
      ? random.word('0-1 1-2 0-0 2- 0-100 1-1')
      : random.pick(['5-2', '50-60', 'x', '-1', 'items=0-1', '0-', '1 - 2', '9223372036854775808-'])
  if (random.percent(1)) all['Range-Unit'] = 'items'
  if (random.percent(12)) all.Authorization = authorization(random)
  if (random.percent(2))
    all[random.word('Accept-Profile Content-Profile')] = random.pick([
      'api',
      Buffer.from('склад').toString('latin1'),
      'nowhere',
      '',
    ])
  if (random.percent(3))
    all.Cookie = random.pick([
      'a=1',
      'a=1; b=2',
      `c=${Buffer.from('ä').toString('latin1')}`,
      'novalue',
      'a=1;a=2',
      '=x',
    ])
  if (random.percent(3)) all['X-Told'] = random.pick(['plain', Buffer.from('grüß 😀').toString('latin1'), 'a"b', ''])
  if (random.percent(1)) all.Origin = 'http://example.com'
  return all
}

const encoded = (text: string): string =>
  encodeURIComponent(text).replace(/%(2C|3A|2A|28|29|22)/g, found => decodeURIComponent(found))

/** Bodies have plain names, without the query string's quotes. */
const unquoted = (columns: Relation['columns']): Relation['columns'] =>
  columns.map(([name, type]) => [name.replace(/^"(.*)"$/, '$1'), type])

function record(random: Random, columns: Relation['columns']): Record<string, unknown> {
  const chosen = unquoted(columns).filter(([name]) => random.percent(name === 'id' || columns.length < 4 ? 80 : 35))
  const all: [string, unknown][] = chosen.map(([name, type]) => [
    name,
    name === 'id' && random.percent(60) ? 20 + random.below(20) : jsonValue(random, type),
  ])
  if (random.percent(2)) all.push([random.pick(['nowhere', '', 'ä', '__proto__', 'ID']), 1])
  return Object.fromEntries(all)
}

function csv(random: Random, columns: Relation['columns']): string {
  const chosen = unquoted(columns).filter(() => random.percent(50))
  const cell = (text: string) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)
  // 12.0.2 reads RFC 4180 differently if there are no records, or if records have unpaired quotes.
  const lines = random.list(1, 3, () =>
    chosen.map(([, type]) => (random.percent(10) ? 'NULL' : cell(value(random, type)))).join(','),
  )
  if (random.percent(5)) lines.push('1')
  return `${[chosen.map(([name]) => name).join(','), ...lines].join(random.word('\n \r\n'))}\n`
}

const form = (random: Random, columns: Relation['columns']): string =>
  unquoted(columns)
    .filter(() => random.percent(60))
    .map(
      ([name, type]) => `${encodeURIComponent(name)}=${encodeURIComponent(value(random, type)).replaceAll('%20', '+')}`,
    )
    .join('&')

const badBodies = [
  '',
  '{',
  '[',
  'null',
  '1',
  '"x"',
  '[1]',
  '[null]',
  '{"a":1}{"a":2}',
  '[{"id":40},{"name":"x"}]',
  '[[]]',
  '[{}]',
  '{}',
  '[]',
  ' ',
  '{"id": 41, "id": 42}',
  '\ufeff{}',
  '{"title": "\\u0000"}',
]

type Body = { readonly body: string | undefined; readonly type: string | undefined }

function body(random: Random, columns: Relation['columns']): Body {
  if (random.percent(5))
    return { body: random.pick(badBodies), type: random.percent(80) ? 'application/json' : undefined }
  const how = random.below(100)
  if (how < 40)
    return { body: JSON.stringify(record(random, columns)), type: random.percent(90) ? 'application/json' : undefined }
  if (how < 75) {
    const first = record(random, columns)
    const rows = random.list(0, 3, () =>
      random.percent(90)
        ? Object.fromEntries(
            Object.keys(first).map(name => [
              name,
              name === 'id'
                ? 20 + random.below(20)
                : jsonValue(random, columns.find(([known]) => known === name)?.[1] ?? 'text'),
            ]),
          )
        : record(random, columns),
    )
    return { body: JSON.stringify(rows), type: 'application/json' }
  }
  if (how < 87) return { body: csv(random, columns), type: 'text/csv' }
  if (how < 95) return { body: form(random, columns), type: 'application/x-www-form-urlencoded' }
  return {
    body: JSON.stringify(record(random, columns)),
    type: random.pick([
      'text/plain',
      'application/json; charset=utf-8',
      'application/octet-stream',
      'nonsense',
      'text/xml',
      `${vendor}object+json`,
      `${vendor}array+json`,
      'Application/JSON',
      '',
    ]),
  }
}

/**
 * Each record equals the first. 12.0.2 updates rows to the last of several records. The service updates rows to the
 * first, but reads all records.
 */
function alike(body: string | undefined): string | undefined {
  if (body === undefined || !body.startsWith('[{')) return body?.replace(/^([^\n]*\n[^\n]*\n).*/s, '$1')
  try {
    const rows: unknown[] = JSON.parse(body)
    return JSON.stringify(rows.map(() => rows[0]))
  } catch {
    return body
  }
}

const withType = (all: Record<string, string>, type: string | undefined): Record<string, string> =>
  type === undefined ? all : { ...all, 'Content-Type': type }

const served = Object.entries(relations)
const written = served.filter(([, { isWritten }]) => isWritten === true)

function read(random: Random): SentRequest {
  const [name, relation] = random.percent(30)
    ? random.pick(served.filter(([known]) => known === 'kinds' || known === 'people' || known === 'projects'))
    : random.pick(served)
  const path = random.percent(98)
    ? `/${encodeURIComponent(name)}`
    : random.pick(
        [
          `/${name.slice(1)}`,
          `/${encodeURIComponent(name)}/`,
          '/nowhere',
          '/kind',
          `/${name.toUpperCase()}`,
          '/a/b',
        ].map(text => text.replaceAll(' ', '%20')),
      )
  return {
    method: random.percent(92) ? 'GET' : 'HEAD',
    path,
    query: parameters(random, relation),
    headers: headers(random, 'read'),
    body: undefined,
  }
}

function write(random: Random): SentRequest {
  const [name, relation] = random.percent(92) ? random.pick(written) : random.pick(served)
  const method = random.word('POST POST POST PATCH PATCH DELETE PUT')
  const columns = relation.columns
    .filter(([column]) => random.percent(97) || column !== 'twice')
    .filter(([column]) => column !== 'twice' || random.percent(10))
  const query: Parameter[] = []
  if (method === 'PUT') {
    const key = relation.columns[0]?.[0] ?? 'id'
    const names = name === 'keyed' ? ['a', 'b'] : [key]
    const row = { ...record(random, columns), [key]: random.pick([1, 2, 30, 31]) }
    for (const column of names)
      query.push([
        column,
        `eq.${random.percent(90) ? (Object.entries(row).find(([known]) => known === column)?.[1] ?? '1') : value(random, 'int')}`,
      ])
    if (random.percent(10)) query.push(...parameters(random, relation, true))
    const all = withType(headers(random, 'write'), random.percent(95) ? 'application/json' : undefined)
    return {
      method,
      path: `/${encodeURIComponent(name)}`,
      query,
      headers: all,
      body: JSON.stringify(random.percent(15) ? [row] : row),
    }
  }
  if (method === 'POST') {
    if (random.percent(25)) query.push(...parameters(random, relation, true))
    else if (random.percent(30)) query.push(['select', random.pick(relation.columns)[0]])
    if (random.percent(12))
      query.push([
        'columns',
        random.percent(90)
          ? random.list(1, 3, () => random.pick(relation.columns)[0]).join(',')
          : random.pick(['', 'nowhere', 'id,', '*', '"id"', 'id.x', 'id->a', ' id']),
      ])
    if (random.percent(12))
      query.push([
        'on_conflict',
        random.percent(85)
          ? random.pick(['id', 'title', 'a,b', 'a', 'name'])
          : random.pick(['', 'nowhere', 'id,', '*', '"id"']),
      ])
  } else query.push(...parameters(random, relation, true))
  // 12.0.2 also applies the logic of a write to its returned rows.
  if (query.some(([known]) => /(^|\.)(and|or)$/.test(known)))
    query.splice(0, query.length, ...query.filter(([known]) => !/(^|\.)(and|or)$/.test(known)))
  if (method === 'DELETE')
    return { method, path: `/${encodeURIComponent(name)}`, query, headers: headers(random, 'write'), body: undefined }
  if (method === 'PATCH' && random.percent(8)) query.push(['columns', random.pick(relation.columns)[0]])
  const { body: sent, type } = body(random, columns)
  return {
    method,
    path: `/${encodeURIComponent(name)}`,
    query,
    headers: withType(headers(random, 'write'), type),
    body: method === 'PATCH' ? alike(sent) : sent,
  }
}

const resultOf = ({ returns }: Callable): Relation | undefined =>
  typeof returns === 'string' ? relations[returns] : returns

function call(random: Random): SentRequest {
  const [name, callable] = random.pick(Object.entries(functions))
  const result = resultOf(callable) ?? { columns: [[name, 'scalar']], embeddings: [] }
  const query = random.percent(resultOf(callable) === undefined ? 12 : 55) ? parameters(random, result) : []
  const own = `/rpc/${encodeURIComponent(name)}`
  const path = random.percent(98)
    ? own
    : random.pick(['/rpc/nowhere', `${own}s`, `${own}/`, '/rpc', '/rpc/', `${own}/x`])
  const sentParameters = callable.parameters.filter(() => random.percent(80))
  if (random.percent(50)) {
    const sent: Parameter[] = sentParameters.flatMap(([parameter, type]) =>
      random.list(1, random.percent(10) ? 2 : 1, (): Parameter => [parameter, value(random, type)]),
    )
    if (random.percent(3)) sent.push([random.pick(['nowhere', 'a', 'id']), value(random, 'int')])
    return {
      method: random.percent(94) ? 'GET' : 'HEAD',
      path,
      query: [...sent, ...query],
      headers: headers(random, 'call'),
      body: undefined,
    }
  }
  const all = headers(random, 'call')
  if (callable.raw !== undefined && random.percent(80)) {
    const type = callable.raw === 'json' ? 'application/json' : callable.raw
    const sent =
      callable.raw === 'json'
        ? JSON.stringify(jsonValue(random, 'json'))
        : random.pick(['text', 'grüß', '', '{"a":1}', '\\x00', '<a>ü</a>', '<a'])
    return {
      method: 'POST',
      path,
      query,
      headers: withType(all, random.percent(92) ? type : random.pick(['text/plain', 'application/json', 'text/xml'])),
      body: sent,
    }
  }
  if (random.percent(60)) {
    const sent = JSON.stringify(
      Object.fromEntries(sentParameters.map(([parameter, type]) => [parameter, jsonValue(random, type)])),
    )
    return {
      method: 'POST',
      path,
      query,
      headers: withType(all, random.percent(95) ? 'application/json' : undefined),
      body: random.percent(97) ? sent : undefined,
    }
  }
  const { body: sent, type } = body(random, callable.parameters)
  if (random.percent(4)) query.push(['columns', sentParameters.map(([parameter]) => parameter).join(',')])
  return { method: 'POST', path, query, headers: withType(all, type), body: sent }
}

function other(random: Random): SentRequest {
  const path = random.pick([
    '/',
    '/clients',
    '/notes',
    '/fixed',
    '/project_names',
    '/project_counts',
    '/loose',
    '/rpc/add',
    '/rpc/all_clients',
    '/rpc/over',
    '/nowhere',
    '/rpc/nowhere',
    '/events',
    '/%D0%B4%D0%B2%D0%B5%D1%80%D1%8C',
    '/rpc/width',
    '/a/b',
    '//',
    '/rpc',
    '/rpc/a/b',
    '/clients/',
  ])
  const method = random.word('OPTIONS OPTIONS OPTIONS GET HEAD POST PATCH PUT DELETE TRACE')
  const all = headers(random, 'read')
  if (path === '/' && method === 'GET') return { method: 'HEAD', path, query: [], headers: all, body: undefined }
  const profile = random.percent(30)
    ? { [random.word('Accept-Profile Content-Profile')]: Buffer.from('склад').toString('latin1') }
    : {}
  return { method, path, query: [], headers: { ...all, ...profile }, body: undefined }
}

/** A request of any kind. Useful kinds are more frequent. */
export function anyRequest(random: Random): SentRequest {
  const kind = random.below(100)
  if (kind < 45) return read(random)
  if (kind < 70) return call(random)
  return kind < 96 ? write(random) : other(random)
}

export const pathOf = ({ path, query }: SentRequest): string =>
  query.length === 0 ? path : `${path}?${query.map(([name, text]) => `${encoded(name)}=${encoded(text)}`).join('&')}`
