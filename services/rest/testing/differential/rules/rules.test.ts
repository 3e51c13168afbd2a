/**
 * Each rule explains its example, and does not explain its near miss. A rule that cites docs/rest.md quotes it
 * literally.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Answer } from '../../../../testing/client.ts'
import { Judge } from '../judge.ts'
import type { SentRequest } from '../request.ts'
import { rules, translated } from './index.ts'
import { judged } from './judged.ts'

/** A request: its method, and its path with the query string. */
function requestOf(text: string, headers: SentRequest['headers'] = {}, body?: string): SentRequest {
  const [, method = '', where = ''] = /^(\S+) (.*)$/s.exec(text) ?? []
  const [path = '', query = ''] = where.split('?')
  const pairs =
    query === ''
      ? []
      : query.split('&').map(one => [one.slice(0, one.indexOf('=')), one.slice(one.indexOf('=') + 1)] as const)
  return { method, path, query: pairs, headers, body }
}

const type = { 'content-type': 'application/json; charset=utf-8' }
const done = (text: string, headers: Answer['headers'] = {}, status = 200): Answer => ({
  status,
  statusText: '',
  headers: { ...type, ...headers },
  text,
})
type FaultFields = readonly [code: string, message: string, details?: string | null, hint?: string | null]
const fault = (
  status: number,
  [code, message, details = null, hint = null]: FaultFields,
  headers: Answer['headers'] = {},
): Answer => done(JSON.stringify({ code, message, details, hint }), headers, status)

type Case = readonly [sent: SentRequest, theirs: Answer, ours: Answer]
/** The second response is a near miss of the first. */
const answers: Readonly<Record<string, readonly [explained: Case, near: Case]>> = {
  'Access-Control-Allow-Origin is sent without Origin, too, and Vary names the headers that an answer depends on': [
    [
      requestOf('GET /loose'),
      done('[]'),
      done('[]', { 'access-control-allow-origin': '*', vary: 'Accept, Authorization, Prefer, Range, Accept-Profile' }),
    ],
    [requestOf('GET /loose'), done('[]'), done('[]', { 'access-control-allow-origin': '*', vary: 'Accept' })],
  ],
  'Locations are URL-encoded in UTF-8 and list each parameter separately': [
    [
      requestOf('POST /odd%20name%2C(x)', {}, '{"a b":1}'),
      done('', { location: '/odd name,(x)?a%20b=eq.1' }, 201),
      done('', { location: '/odd%20name%2C(x)?a%20b=eq.1' }, 201),
    ],
    [
      requestOf('GET /clients?name=eq.ä'),
      done('[]', { 'content-location': '/clients?name=eq.%E4' }),
      done('[]', { 'content-location': '/clients?name=eq.%E4' }),
    ],
  ],
  'An offset beyond the rows returns an error with Content-Range as its only answer header': [
    [
      requestOf('GET /rpc/several?offset=10'),
      fault(416, ['PGRST103', 'no'], { 'content-range': '10-10/1', 'preference-applied': 'count=exact' }),
      fault(416, ['RST103', 'no'], { 'content-range': '*/1' }),
    ],
    [
      requestOf('GET /rpc/several?offset=10'),
      fault(416, ['PGRST103', 'no'], { 'content-range': '10-10/1' }),
      fault(416, ['RST103', 'no'], { 'content-range': '*/2' }),
    ],
  ],
  'max-affected applies only with handling=strict': [
    [
      requestOf('DELETE /desk', { Prefer: 'handling=strict, max-affected=1' }),
      done('', { 'content-range': '*/3', 'preference-applied': 'count=exact, handling=strict' }, 204),
      fault(400, ['RST124', 'Query result exceeds max-affected preference constraint', 'The query affects 3 rows']),
    ],
    [
      requestOf('DELETE /desk', { Prefer: 'handling=strict, max-affected=3' }),
      done('', { 'content-range': '*/3', 'preference-applied': 'count=exact, handling=strict' }, 204),
      fault(400, ['RST124', 'Query result exceeds max-affected preference constraint', 'The query affects 3 rows']),
    ],
  ],
  'A plan describes our statement': [
    [
      requestOf('GET /loose', { Accept: 'application/vnd.pgrst.plan' }),
      done('Aggregate  (cost=5..6)\n  Output: a\nPlanning Time: 1 ms', {
        'content-type': 'application/vnd.pgrst.plan+text',
      }),
      done('Aggregate  (cost=1..2)\n  Output: b\nPlanning Time: 2 ms', {
        'content-type': 'application/vnd.pgrst.plan+text',
      }),
    ],
    [
      requestOf('GET /loose', { Accept: 'application/vnd.pgrst.plan' }),
      done('Aggregate  (cost=5..6)\n  Output: a\nPlanning Time: 1 ms', {
        'content-type': 'application/vnd.pgrst.plan+text',
      }),
      done('Aggregate  (cost=1..2)\nPlanning Time: 2 ms', { 'content-type': 'application/vnd.pgrst.plan+text' }),
    ],
  ],
  'A function of one unnamed parameter receives a value that is neither object nor list unchanged': [
    [requestOf('POST /rpc/json_body', {}, '"x"'), done('[]'), done('"x"')],
    [requestOf('POST /rpc/json_body', {}, '["x"]'), done('[]'), done('["x"]')],
  ],
  'A single object of a set of values is the value itself': [
    [requestOf('GET /rpc/texts?limit=1'), done('{"pgrst_scalar":"b"}'), done('"b"')],
    [requestOf('GET /rpc/texts?limit=1'), done('{"pgrst_scalar":"b"}'), done('"c"')],
  ],
  'An upsert of rows that a trigger skips returns 200': [
    [
      requestOf('POST /picky', { Prefer: 'resolution=merge-duplicates' }, '[{"name":"skip"}]'),
      done('', {}, 201),
      done(''),
    ],
    [
      requestOf('POST /picky', { Prefer: 'resolution=merge-duplicates' }, '[{"name":"skip"},{"name":"a"}]'),
      done('', {}, 201),
      done(''),
    ],
  ],
  'With missing=default JSON is stored as it was sent': [
    [
      requestOf('POST /notes', { Prefer: 'missing=default' }, '[{"body":{"a":[1,2]}}]'),
      done('[{"body":"{\\"a\\": [1, 2]}"}]'),
      done('[{"body":"{\\"a\\":[1,2]}"}]'),
    ],
    [
      requestOf('POST /notes', {}, '[{"body":{"a":[1,2]}}]'),
      done('[{"body":"{\\"a\\": [1, 2]}"}]'),
      done('[{"body":"{\\"a\\":[1,2]}"}]'),
    ],
  ],
  'Token errors have their own messages, and claim errors the code RST303': [
    [
      requestOf('GET /loose'),
      fault(401, ['PGRST301', 'JWTNotYetValid'], {
        'www-authenticate': 'Bearer error="invalid_token", error_description="JWTNotYetValid"',
      }),
      fault(401, ['RST303', 'JWT not yet valid'], {
        'www-authenticate': 'Bearer error="invalid_token", error_description="JWT not yet valid"',
      }),
    ],
    [requestOf('GET /loose'), fault(401, ['PGRST301', 'JWTNotYetValid']), fault(401, ['RST303', 'JWT expired'])],
  ],
  'An empty token returns 401 before any other error': [
    [
      requestOf('GET /loose', { Authorization: 'Bearer ' }),
      done('[]'),
      fault(401, ['RST301', 'Empty JWT is sent in Authorization header'], {
        'www-authenticate':
          'Bearer error="invalid_token", error_description="Empty JWT is sent in Authorization header"',
      }),
    ],
    [
      requestOf('GET /loose', { Authorization: 'Basic YTpi' }),
      done('[]'),
      fault(401, ['RST301', 'Empty JWT is sent in Authorization header'], {
        'www-authenticate':
          'Bearer error="invalid_token", error_description="Empty JWT is sent in Authorization header"',
      }),
    ],
  ],
  'Messages about row counts, unknown columns and operands of is have the words of PostgREST 13': [
    [
      requestOf('GET /loose'),
      fault(406, ['PGRST116', 'JSON object requested, multiple (or no) rows returned', 'The result contains 3 rows']),
      fault(406, ['RST116', 'Cannot coerce the result to a single JSON object', 'The result contains 3 rows']),
    ],
    [
      requestOf('GET /loose'),
      fault(406, ['PGRST116', 'JSON object requested, multiple (or no) rows returned', 'The result contains 3 rows']),
      fault(406, ['RST116', 'Cannot coerce the result to a single JSON object', 'The result contains 2 rows']),
    ],
  ],
  'A media type without a handler returns 406; errors 21, 42P17, 53400, 54 and 55 return 500': [
    [requestOf('GET /loose'), fault(415, ['PGRST107', 'None']), fault(406, ['RST107', 'None'])],
    [requestOf('GET /loose'), fault(400, ['56000', 'None']), fault(500, ['56000', 'None'])],
  ],
  '42501 without a valid token returns 400 without WWW-Authenticate': [
    [
      requestOf('GET /loose'),
      fault(401, ['42501', 'no'], { 'www-authenticate': 'Bearer' }),
      fault(400, ['42501', 'no']),
    ],
    [requestOf('GET /loose'), fault(403, ['42501', 'no']), fault(400, ['42501', 'no'])],
  ],
  'A role that does not exist returns 401': [
    [
      requestOf('GET /loose'),
      fault(400, ['22023', 'role "x" does not exist']),
      fault(401, ['22023', 'role "x" does not exist'], { 'www-authenticate': 'Bearer' }),
    ],
    [
      requestOf('GET /loose'),
      fault(400, ['22023', 'no such zone']),
      fault(401, ['22023', 'no such zone'], { 'www-authenticate': 'Bearer' }),
    ],
  ],
  'An unsupported body type returns 415 and RST107': [
    [
      requestOf('POST /loose', { 'Content-Type': '' }),
      fault(400, ['PGRST102', 'Content-Type not acceptable: */*']),
      fault(415, ['RST107', 'Content-Type not acceptable: ']),
    ],
    [
      requestOf('POST /loose', { 'Content-Type': '' }),
      fault(400, ['PGRST102', 'Empty or invalid json']),
      fault(415, ['RST107', 'Content-Type not acceptable: ']),
    ],
  ],
  'Retry-After is sent with 503 alone': [
    [
      requestOf('GET /loose'),
      fault(503, ['08000', 'no'], { 'retry-after': '0' }),
      fault(503, ['08000', 'no'], { 'retry-after': '1' }),
    ],
    [requestOf('GET /loose'), fault(503, ['08000', 'no'], { 'retry-after': '0' }), fault(503, ['08000', 'no'])],
  ],
  'RST121 reports the part of a raised error that is not JSON': [
    [
      requestOf('GET /rpc/fail?state=PGRST&message={'),
      fault(500, ['PGRST121', 'expects JSON']),
      fault(500, [
        'RST121',
        'Could not parse JSON in the "RAISE SQLSTATE \'PGRST\'" error',
        "Invalid JSON value for MESSAGE: '{'",
        "MESSAGE must be a JSON object with obligatory keys: 'code', 'message' and optional keys: 'details', 'hint'.",
      ]),
    ],
    [
      requestOf('GET /rpc/fail?state=PGRST&message={"code":"1","message":"m"}&detail={'),
      fault(500, ['PGRST121', 'expects JSON']),
      fault(500, [
        'RST121',
        'Could not parse JSON in the "RAISE SQLSTATE \'PGRST\'" error',
        "Invalid JSON value for MESSAGE: '{'",
        "MESSAGE must be a JSON object with obligatory keys: 'code', 'message' and optional keys: 'details', 'hint'.",
      ]),
    ],
  ],
  'Groups are ordered, so a type without an order cannot be grouped by': [
    [
      requestOf('GET /kinds?select=plain,count()'),
      fault(404, ['42883', 'could not identify an equality operator for type json']),
      fault(404, [
        '42883',
        'could not identify an ordering operator for type json',
        null,
        'Use an explicit ordering operator or modify the query.',
      ]),
    ],
    [
      requestOf('GET /kinds?select=plain,count()&order=id'),
      fault(404, ['42883', 'could not identify an equality operator for type json']),
      fault(404, [
        '42883',
        'could not identify an ordering operator for type json',
        null,
        'Use an explicit ordering operator or modify the query.',
      ]),
    ],
  ],
  'An invalid path returns RST125 with a body': [
    [requestOf('GET /loose/'), done('{}', {}, 404), fault(404, ['RST125', 'Invalid path specified in request URL'])],
    [requestOf('GET /loose'), done('{}', {}, 404), fault(404, ['RST125', 'Invalid path specified in request URL'])],
  ],
  'A filter on an embedding that compares with anything but null returns RST120': [
    [
      requestOf('GET /clients?select=projects()&projects=eq.1'),
      fault(400, ['42703', 'column clients.projects does not exist']),
      fault(400, [
        'RST120',
        "Bad operator on the 'projects' embedded resource",
        'Only is null or not is null filters are allowed on embedded resources',
      ]),
    ],
    [
      requestOf('GET /clients?select=projects()&projects=is.null'),
      fault(400, ['42703', 'column clients.projects does not exist']),
      fault(400, [
        'RST120',
        "Bad operator on the 'projects' embedded resource",
        'Only is null or not is null filters are allowed on embedded resources',
      ]),
    ],
  ],
  'An unknown relation returns RST205 before any other planning error': [
    [
      requestOf('GET /PICKY'),
      fault(404, ['42P01', 'relation "api.PICKY" does not exist']),
      fault(404, [
        'RST205',
        "Could not find the table 'api.PICKY' in the schema cache",
        null,
        "Perhaps you meant the table 'api.picky'",
      ]),
    ],
    [
      requestOf('GET /picky'),
      fault(404, ['42P01', 'relation "api.x" does not exist']),
      fault(404, ['RST205', "Could not find the table 'api.picky' in the schema cache"]),
    ],
  ],
  'A hint suggests a function only where three of four letters of its name match': [
    [
      requestOf('GET /rpc/no_names'),
      fault(404, ['PGRST202', 'none', null, 'Perhaps you meant to call the function api.no_rows']),
      fault(404, ['RST202', 'none']),
    ],
    [
      requestOf('GET /rpc/no_row'),
      fault(404, ['PGRST202', 'none', null, 'Perhaps you meant to call the function api.no_rows']),
      fault(404, ['RST202', 'none']),
    ],
  ],
  'Errors name the rows of a function by their relation, and number a relation that is embedded again': [
    [
      requestOf('GET /rpc/all_clients?select=name&order=Id'),
      fault(400, ['42703', 'column pgrst_call.Id does not exist']),
      fault(400, [
        '42703',
        'column clients.Id does not exist',
        null,
        'Perhaps you meant to reference the column "clients.id".',
      ]),
    ],
    [
      requestOf('GET /rpc/all_clients?select=id,name&order=Id'),
      fault(400, ['42703', 'column pgrst_call.Id does not exist']),
      fault(400, [
        '42703',
        'column clients.Id does not exist',
        null,
        'Perhaps you meant to reference the column "clients.id".',
      ]),
    ],
  ],
  'The root refuses methods other than GET, HEAD and OPTIONS before any other error': [
    [
      requestOf('POST /'),
      fault(400, ['PGRST102', 'Empty or invalid json']),
      fault(405, ['RST117', 'Unsupported HTTP method: POST']),
    ],
    [
      requestOf('POST /loose'),
      fault(400, ['PGRST102', 'Empty or invalid json']),
      fault(405, ['RST117', 'Unsupported HTTP method: POST']),
    ],
  ],
  'OPTIONS lists the methods of a function whatever its parameters': [
    [
      requestOf('OPTIONS /rpc/add'),
      fault(404, ['PGRST202', 'none']),
      { ...done('', { allow: 'OPTIONS,GET,HEAD,POST' }), headers: { allow: 'OPTIONS,GET,HEAD,POST' } },
    ],
    [
      requestOf('OPTIONS /rpc/nowhere'),
      fault(404, ['PGRST202', 'none']),
      { ...done('', { allow: 'OPTIONS,GET,HEAD,POST' }), headers: { allow: 'OPTIONS,GET,HEAD,POST' } },
    ],
  ],
  'An unknown schema is checked before the query string; the message names it, and the hint the served schemas': [
    [
      requestOf('GET /loose?a=x', { 'Accept-Profile': 'nowhere' }),
      fault(400, ['PGRST100', 'failed to parse']),
      fault(406, ['RST106', 'Invalid schema: nowhere', null, 'Only the following schemas are exposed: api, склад']),
    ],
    [
      requestOf('GET /loose?a=x', { 'Content-Profile': 'nowhere' }),
      fault(400, ['PGRST100', 'failed to parse']),
      fault(406, ['RST106', 'Invalid schema: nowhere', null, 'Only the following schemas are exposed: api, склад']),
    ],
  ],
  'is.not_null means not.is.null, a cast may name an array, a hint may name a self-referencing key, and PUT accepts quoted and spaced names':
    [
      [
        requestOf('GET /people?select=people!people_boss_id_fkey(x.,people!people_boss_id_fkey(id))'),
        fault(400, [
          'PGRST100',
          '"failed to parse select parameter (people!boss_id(x.,people!boss_id(id)))" (line 1, column 18)',
        ]),
        fault(400, [
          'RST100',
          '"failed to parse select parameter (people!people_boss_id_fkey(x.,people!people_boss_id_fkey(id)))" (line 1, column 30)',
        ]),
      ],
      [
        requestOf('GET /people?select=people!people_boss_id_fkey(x.,people!people_boss_id_fkey(id))'),
        fault(400, [
          'PGRST100',
          '"failed to parse select parameter (people!boss_id(x.,people!boss_id(id)))" (line 1, column 18)',
        ]),
        fault(400, [
          'RST100',
          '"failed to parse select parameter (people!people_boss_id_fkey(x.,people!people_boss_id_fkey(id)))" (line 1, column 42)',
        ]),
      ],
    ],
}

/** One request that is rewritten for 12.0.2, and one request that is not. */
const requests: Readonly<
  Record<string, readonly (readonly [from: SentRequest, to: SentRequest, near: SentRequest])[]>
> = {
  'Media types ignore case, a JSON body may have the type of an answer, and Range may name its unit': [
    [
      requestOf('GET /notes', { Accept: 'Text/CSV' }),
      requestOf('GET /notes', { Accept: 'text/csv' }),
      requestOf('GET /notes', { Accept: 'text/csv' }),
    ],
    [
      requestOf('GET /notes', { Range: 'items=0-1' }),
      requestOf('GET /notes', { Range: '0-1' }),
      requestOf('GET /notes', { Range: 'item=0-1' }),
    ],
    [
      requestOf('POST /notes', { 'Content-Type': 'application/vnd.pgrst.object+json' }),
      requestOf('POST /notes', { 'Content-Type': 'application/json' }),
      requestOf('POST /notes', { 'Content-Type': 'application/vnd.list+json' }),
    ],
  ],
  'is.not_null means not.is.null, a cast may name an array, a hint may name a self-referencing key, and PUT accepts quoted and spaced names':
    [
      [
        requestOf('GET /notes?and=(id.is.not_null,id.not.is.NOT_NULL)'),
        requestOf('GET /notes?and=(id.not.is.null,id.is.null)'),
        requestOf('GET /notes?id=is.not_nul'),
      ],
      [
        requestOf('GET /notes?select=id::int[]'),
        requestOf('GET /notes?select=id::_int4'),
        requestOf('GET /notes?select=id::int'),
      ],
      [
        requestOf('GET /people?select=people!people_boss_id_fkey(id)'),
        requestOf('GET /people?select=people!boss_id(id)'),
        requestOf('GET /people?select=people!friends(id)'),
      ],
      [requestOf('PUT /notes?"id"=eq.1'), requestOf('PUT /notes?id=eq.1'), requestOf('PATCH /notes?"id"=eq.1')],
      [requestOf('PUT /notes?id =eq.1'), requestOf('PUT /notes?id=eq.1'), requestOf('PATCH /notes?id =eq.1')],
    ],
  'limit and offset are ignored where they are not decimal digits, and by updates and deletes': [
    [requestOf('GET /notes?limit=1.5'), requestOf('GET /notes'), requestOf('GET /notes?limit=-1')],
    [requestOf('DELETE /notes?limit=1'), requestOf('DELETE /notes'), requestOf('PUT /notes?limit=1')],
    [
      requestOf('PATCH /notes?limit=0&offset=0'),
      requestOf('PATCH /notes'),
      requestOf('PATCH /notes?limit=0&offset=10'),
    ],
    [
      requestOf('PATCH /notes?limit=1&offset=10'),
      requestOf('PATCH /notes'),
      requestOf('PATCH /notes?limit=-1&offset=0'),
    ],
  ],
  'CSV without quotes means the JSON of its records': [
    [
      requestOf('POST /notes', { 'Content-Type': 'text/csv' }, 'id,body\n1,NULL\n'),
      requestOf('POST /notes', { 'Content-Type': 'application/json' }, '[{"id":"1","body":null}]'),
      requestOf('POST /notes', { 'Content-Type': 'text/csv' }, 'id,body\n1\n'),
    ],
  ],
  'Rows are updated to the first of several records': [
    [
      requestOf('PATCH /notes', {}, '[{"id":1},{"id":2}]'),
      requestOf('PATCH /notes', {}, '[{"id":1}]'),
      requestOf('POST /notes', {}, '[{"id":1},{"id":2}]'),
    ],
  ],
  'A missing body means an empty object': [
    [
      requestOf('POST /rpc/json_body', {}, ''),
      requestOf('POST /rpc/json_body', {}, '{}'),
      requestOf('POST /rpc/text_body', { 'Content-Type': 'text/plain' }, ''),
    ],
  ],
  'max-affected applies only with handling=strict': [
    [
      requestOf('DELETE /notes', { Prefer: 'handling=strict, max-affected=1' }),
      requestOf('DELETE /notes', { Prefer: 'handling=strict, count=exact' }),
      requestOf('DELETE /notes', { Prefer: 'handling=strict, max-affected=x' }),
    ],
    [
      requestOf('GET /notes', { Prefer: 'return=minimal, max-affected=1' }),
      requestOf('GET /notes', { Prefer: 'return=minimal' }),
      requestOf('GET /notes'),
    ],
  ],
}

/** The first response equals PostgREST's response to a part of the request. The second does not. */
const instead: Readonly<Record<string, readonly [explained: Case, near: Case]>> = {
  'Of several faults Postgres chooses which to report, and whether to evaluate a value that no row needs': [
    [requestOf('GET /loose?a=eq.x&b=eq.y'), fault(400, ['22P02', 'of b']), fault(400, ['22P02', 'of a'])],
    [requestOf('GET /loose?a=eq.x&b=eq.y'), fault(400, ['22P02', 'of b']), fault(400, ['22P02', 'of c'])],
  ],
  'HEAD makes no body, and so reports no fault that only a body would show': [
    [requestOf('HEAD /loose?select=b::int'), fault(400, ['22P02', 'of b']), done('')],
    [requestOf('GET /loose?select=b::int'), fault(400, ['22P02', 'of b']), done('')],
  ],
}

test('there are 40 rules at most, each with an example', () => {
  expect(rules.length).toBeLessThanOrEqual(40)
  const known = new Set([...Object.keys(answers), ...Object.keys(requests), ...Object.keys(instead)])
  expect([...known].sort()).toEqual(rules.map(({ rule }) => rule).sort())
  expect(
    rules
      .filter(one => one.answers !== undefined || one.reduces !== undefined)
      .map(({ rule }) => rule)
      .filter(rule => !(rule in answers)),
  ).toEqual([])
  expect(
    rules
      .filter(one => one.rewrite !== undefined)
      .map(({ rule }) => rule)
      .filter(rule => !(rule in requests)),
  ).toEqual([])
})

const named = (name: string) => rules.filter(({ rule }) => rule === name)

test.each(Object.entries(answers))('%s', (name, [[sent, theirs, ours], near]) => {
  expect(judged(named(name), sent, theirs, ours).differences).toEqual([])
  expect(judged([], sent, theirs, ours).differences).not.toEqual([])
  expect(judged(named(name), ...near).differences).not.toEqual([])
})

test.each(Object.entries(requests))('12.0.2 gets a rewritten request: %s', (name, examples) => {
  for (const [from, to, near] of examples) {
    expect(translated(from, named(name)).sent).toEqual(to)
    expect(translated(near, named(name)).by).toEqual([])
  }
})

test.each(Object.entries(instead))('%s', async (name, [explained, near]) => {
  const isRight = async ([sent, theirs, ours]: Case) => {
    const part = name.startsWith('HEAD') ? done('') : fault(400, ['22P02', 'of a'])
    const both = {
      sendToBoth: () => Promise.resolve({ theirs, ours: withCommon(ours) }),
      sendToPostgrest: (one: SentRequest) =>
        Promise.resolve(one.query.some(([, text]) => /::int|eq\.y/.test(text)) ? theirs : part),
    }
    const judge = new Judge(both, false)
    const found = await judge.differences(sent)
    return found.length === 0 && judge.counts.has(name)
  }
  // Every response has these headers, whatever the rule.
  const withCommon = (answer: Answer): Answer => ({
    ...answer,
    headers: {
      ...answer.headers,
      'access-control-allow-origin': '*',
      ...(answer.status === 200 ? { vary: 'Accept, Authorization, Prefer, Range, Accept-Profile' } : {}),
    },
  })
  expect(await isRight(explained)).toBe(true)
  expect(await isRight(near)).toBe(false)
})

const page = readFileSync(join(import.meta.dirname, '../../../../../docs/rest.md'), 'utf8')
const different = page
  .slice(page.indexOf('## What is different'), page.indexOf('## Beyond PostgREST'))
  .replaceAll(/\s+/g, ' ')

test.each(rules.flatMap(({ source }) => source))('%s', source => {
  const [where, words] = [source.slice(0, source.indexOf(':')), source.slice(source.indexOf(':') + 2)]
  if (where === 'docs/rest.md') expect(different).toContain(words)
  else
    expect(source).toMatch(
      /^(the contract: \w|PostgREST 1[234](\.\d+){0,2}( and 1[234](\.\d+){0,2})?, (#\d+)(, #\d+| and #\d+)*$)/,
    )
})
