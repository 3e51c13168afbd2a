/** Faults that the judge must detect. Each fault is next to a correct response. */
import { expect, test } from 'vitest'
import type { Answer } from '../../../testing/client.ts'
import { Judge } from './judge.ts'
import type { SentRequest } from './request.ts'

const headers = { 'content-type': 'application/json; charset=utf-8' }
const rows = (text: string): Answer => ({ status: 200, statusText: '', headers, text })
const broken: Answer = { ...rows('{"code":"RST000","details":null,"hint":null,"message":"broken"}'), status: 500 }
const refused: Answer = { ...rows('{"code":"42501","details":null,"hint":null,"message":"no"}'), status: 500 }
const requestOf = (
  method: string,
  query: SentRequest['query'],
  more: SentRequest['headers'] = {},
  body?: string,
): SentRequest => ({
  method,
  path: '/notes',
  query,
  headers: more,
  body,
})

/** Includes the headers that every response of the service has. */
const withCommon = (request: SentRequest, answer: Answer): Answer => ({
  ...answer,
  headers: {
    ...answer.headers,
    'access-control-allow-origin': '*',
    ...(request.method === 'GET' && answer.status === 200
      ? { vary: 'Accept, Authorization, Prefer, Range, Accept-Profile' }
      : {}),
  },
})

async function isRight(request: SentRequest, theirs: Answer, answer: Answer): Promise<boolean> {
  const ours = withCommon(request, answer)
  const judge = new Judge(
    { sendToBoth: () => Promise.resolve({ theirs, ours }), sendToPostgrest: () => Promise.resolve(theirs) },
    false,
  )
  return (await judge.differences(request)).length === 0
}

const two = rows('[{"id":2},{"id":1}]')
const cases: readonly [string, SentRequest, Answer, readonly Answer[]][] = [
  ['an order', requestOf('GET', [['order', 'id.desc']]), two, [rows('[{"id":1},{"id":2}]')]],
  [
    'a page',
    requestOf('GET', [['limit', '2']]),
    two,
    [rows('[{"id":1},{"id":3}]'), rows('[{"title":2},{"title":1}]'), rows('[{"id":2}]')],
  ],
  ['a range with a unit', requestOf('GET', [], { Range: 'items=0-1' }), two, [broken, refused, rows('[]')]],
  [
    'an update by several records',
    requestOf('PATCH', [], { Prefer: 'return=representation' }, '[{"id":1},{"id":1}]'),
    two,
    [broken, refused, rows('[]')],
  ],
  ['is.not_null', requestOf('GET', [['id', 'is.not_null']]), two, [broken, rows('[]')]],
  ['a media type in capitals', requestOf('GET', [], { Accept: 'Application/JSON' }), two, [broken, rows('[]')]],
  ['a limit that is not a number', requestOf('GET', [['limit', 'x']]), two, [broken, rows('[]')]],
  ['a cast to an array', requestOf('GET', [['select', 'id::int[]']]), two, [broken, rows('[{"id":2}]')]],
]

test.each(cases)('%s', async (_name, request, right, wrong) => {
  expect(await isRight(request, right, right)).toBe(true)
  for (const one of wrong) expect(await isRight(request, right, one)).toBe(false)
})

test("the error's column in a logic tree, which is parsed after its operator", async () => {
  const request = requestOf('GET', [['or', '(id-.not.is.not_null)']])
  const malformed = (tree: string, column: number): Answer => ({
    ...rows(
      `{"code":"RST100","details":null,"hint":null,"message":"\\"failed to parse logic tree (${tree})\\" (line 1, column ${column})"}`,
    ),
    status: 400,
  })
  const theirs = malformed('(id-.is.null)', 7)
  expect(await isRight(request, theirs, malformed('(id-.not.is.not_null)', 7))).toBe(true)
  expect(await isRight(request, theirs, malformed('(id-.not.is.not_null)', 15))).toBe(false)
})

test("the error's column in an operand of `is`: the service reads more of the operand", async () => {
  const request = requestOf('GET', [['flag', 'is.no']])
  const malformed = (expecting: string, found: string, column: number): Answer => ({
    ...rows(
      `{"code":"RST100","details":"unexpected ${found} expecting ${expecting}","hint":null,"message":"\\"failed to parse filter (is.no)\\" (line 1, column ${column})"}`,
    ),
    status: 400,
  })
  const theirs = malformed('null or trilean value (unknown, true, false)', '\\"o\\"', 5)
  const words = 'isVal: (null, not_null, true, false, unknown)'
  expect(await isRight(request, theirs, malformed(words, 'end of input', 6))).toBe(true)
  expect(await isRight(request, theirs, malformed(words, '\\"o\\"', 5))).toBe(false)
})

test('OPTIONS of a function: it runs no statement that max-affected could limit', async () => {
  const request = { ...requestOf('OPTIONS', [], { Prefer: 'handling=strict, max-affected=1' }), path: '/rpc/add' }
  const allowed: Answer = { status: 200, statusText: '', headers: { allow: 'OPTIONS,GET,HEAD,POST' }, text: '' }
  const limited = rows('{"code":"RST128","details":null,"hint":null,"message":"no set"}')
  expect(await isRight(request, allowed, allowed)).toBe(true)
  expect(await isRight(request, allowed, { ...limited, status: 400 })).toBe(false)
})

test('a value that cannot be converted, in another row of an embedding', async () => {
  const request = {
    ...requestOf('GET', [['select', 'id,people!message_receiver(name::int)']]),
    path: '/messages',
  }
  const malformed = (name: string): Answer => ({
    ...rows(`{"code":"22P02","details":null,"hint":null,"message":"invalid input syntax: \\"${name}\\""}`),
    status: 400,
  })
  const isFound = async (ours: Answer) => {
    const judge = new Judge(
      {
        sendToBoth: () => Promise.resolve({ theirs: malformed('Ada'), ours: withCommon(request, ours) }),
        sendToPostgrest: one =>
          Promise.resolve(
            malformed(one.query.some(([name, text]) => `${name}=${text}` === 'people.id=eq.2') ? 'Bob' : 'Ada'),
          ),
      },
      false,
    )
    return (await judge.differences(request)).length === 0
  }
  expect(await isFound(malformed('Bob'))).toBe(true)
  expect(await isFound(malformed('Eve'))).toBe(false)
})
