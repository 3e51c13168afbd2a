/** Exceptions of writes, functions, media types and headers. */
import type { Answer } from '../../../../testing/client.ts'
import { isSameBody } from '../compare.ts'
import { type Asked, isWrite } from '../request.ts'
import { bodyOf } from '../rows.ts'
import { isOfDatabase, tells } from './answers.ts'
import { codeOf, type Exception, hasParameter } from './exception.ts'

const accepts = ({ headers }: Asked, text: RegExp): boolean => text.test(headers.Accept ?? '')
const prefers = ({ headers }: Asked, text: RegExp): boolean => text.test(headers.Prefer ?? '')
const encoded = (text: string): string =>
  encodeURIComponent(text).replaceAll(/[!'()*]/g, letter => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`)
/** What Content-Location has to be. */
function locationOf({ path, query }: Asked): string {
  const sorted = query
    .toSorted(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0))
    .map(([name, text]) => `${encoded(name)}=${encoded(text)}`)
  return sorted.length === 0 ? path : `${path}?${sorted.join('&')}`
}
const decoded = (location: string | undefined): string => {
  try {
    return decodeURIComponent(location ?? '')
  } catch {
    return ''
  }
}
/** How many rows an answer tells to be affected; all where it does not. */
function affected({ headers }: Answer): number {
  const [, first, last] = /^(\d+)-(\d+)\//.exec(headers['content-range'] ?? '') ?? []
  return first === undefined ? Number.POSITIVE_INFINITY : Number(last) - Number(first) + 1
}
const most = ({ headers }: Asked): number => Number(/max-affected=(\d+)/.exec(headers.Prefer ?? '')?.[1])
function isJson(...texts: readonly string[]): boolean {
  try {
    for (const text of texts) JSON.parse(text)
    return true
  } catch {
    return false
  }
}
/** The arguments that are JSON, of a query string or a form. */
const argumentsOf = ({ query, body = '' }: Asked): string[] =>
  [...query, ...new URLSearchParams(body)].filter(([name]) => /^(a|b|doc)$/.test(name)).map(([, text]) => text)
/** Each text that is JSON as what it says. */
const withoutTexts = (text: string): string =>
  text
    .replaceAll(/"(?:[^"\\]|\\.)*"/g, quoted =>
      isJson(quoted) && isJson(JSON.parse(quoted)) ? JSON.parse(quoted) : quoted,
    )
    .replaceAll(/\s/g, '')
const isRefused = ({ status }: Answer): boolean => status === 401
const isDone = ({ status }: Answer): boolean => status < 300
const isPlan = ({ headers }: Answer): boolean =>
  headers['content-type']?.startsWith('application/vnd.pgrst.plan') === true

/** What PostgREST has changed in the versions after 12.0.2. */
const changes: readonly Exception[] = [
  {
    rule: 'Faults of tokens are told in words of their own, those of claims as RST303',
    source: 'PostgREST 13, #3600 and #3926',
    parts: ['code', 'message', 'details', 'header www-authenticate'],
    applies: ({ theirs, ours }) =>
      isRefused(theirs) && isRefused(ours) && codeOf(theirs) === 'RST301' && /^RST30[13]$/.test(codeOf(ours)),
  },
  {
    rule: 'An empty token is none that is valid',
    source: 'PostgREST 13, #3926',
    applies: ({ asked, ours }) => /^bearer *$/i.test(asked.headers.Authorization ?? '') && codeOf(ours) === 'RST301',
  },
  {
    rule: 'The root takes no method but GET, HEAD and OPTIONS, whatever else is wrong',
    source: 'PostgREST 13, #3906',
    applies: ({ asked, ours }) => asked.path === '/' && codeOf(ours) === 'RST117',
  },
  {
    rule: 'max-affected is said to be applied where handling is strict',
    source: 'PostgREST 12.2, #2887',
    parts: ['header preference-applied'],
    applies: ({ asked, theirs, ours }) =>
      prefers(asked, /max-affected=[0-9]/) &&
      prefers(asked, /handling=strict/) &&
      theirs.headers['preference-applied'] ===
        String(ours.headers['preference-applied']).replace(/, max-affected=\d+$/, ''),
  },
  {
    rule: 'A time zone that is known makes no other preference known',
    source: 'PostgREST 12.2, #2887',
    applies: ({ asked, theirs, ours }) =>
      prefers(asked, /handling=strict/) &&
      prefers(asked, /timezone=Europe/) &&
      codeOf(theirs) !== 'RST122' &&
      codeOf(ours) === 'RST122',
  },
  {
    rule: 'More rows than max-affected, or a function that returns no set, are refused where handling is strict',
    source: 'PostgREST 12.2, #2887',
    applies: ({ asked, theirs, ours }) =>
      prefers(asked, /handling=strict/) &&
      prefers(asked, /max-affected=[0-9]/) &&
      ours.status === 400 &&
      (codeOf(ours) === 'RST128'
        ? asked.path.startsWith('/rpc')
        : codeOf(ours) === 'RST124' && isDone(theirs) && affected(theirs) > most(asked)),
  },
  {
    rule: 'params=single-object is no preference that is valid',
    source: 'PostgREST 13, #3757',
    applies: ({ asked, ours }) =>
      prefers(asked, /handling=strict/) &&
      codeOf(ours) === 'RST122' &&
      tells(ours, /Invalid preferences: [^"]*params=single-object/),
  },
  {
    rule: 'Arguments by GET or of a form are values of their own, not texts inside of JSON',
    source: 'PostgREST 13, #2858',
    applies: ({ asked, theirs, ours }) =>
      /^\/rpc\/(echo|json_args)$/.test(asked.path) &&
      (asked.method !== 'POST' || /form/.test(asked.headers['Content-Type'] ?? '')) &&
      isDone(theirs) &&
      (isDone(ours)
        ? withoutTexts(theirs.text) === withoutTexts(ours.text)
        : codeOf(ours) === '22P02' && !isJson(...argumentsOf(asked))),
  },
  {
    rule: 'What nothing makes is 406, not 415',
    source: 'PostgREST 12.0.3, #3224',
    parts: ['status'],
    applies: ({ theirs, ours }) => theirs.status === 415 && ours.status === 406,
  },
  {
    rule: 'order is of what is answered of a write',
    source: 'PostgREST 13, #3013',
    applies: ({ asked, theirs, ours }) =>
      isWrite(asked) &&
      hasParameter(asked, /(^|\.)order$/) &&
      (isDone(theirs) || isOfDatabase(theirs) || /^RST(105|107|11[56]|122|204)$/.test(codeOf(theirs))) &&
      (/^(42703|42803|42883|RST1[01]8)$/.test(codeOf(ours)) || isSameBody(asked, theirs, ours)),
  },
  {
    rule: 'The default of a column is used, not that of its domain',
    source: 'PostgREST 12.2.4, #3706',
    parts: ['body'],
    applies: ({ asked, theirs, ours }) => {
      const withoutCode = ({ text }: Answer) => text.replaceAll(/"code":(null|"C5")/g, '')
      return prefers(asked, /missing=default/) && withoutCode(theirs) === withoutCode(ours)
    },
  },
  {
    rule: 'A handler of a relation takes no part of its rows, also where it has nothing to make',
    source: 'PostgREST 12.0.3, #3160',
    applies: ({ asked, theirs, ours }) =>
      accepts(asked, /html/) &&
      hasParameter(asked, /^select$/) &&
      (isDone(theirs) || isOfDatabase(theirs)) &&
      codeOf(ours) === 'RST107',
  },
  {
    rule: 'A handler of any element is given the columns that are selected',
    source: 'PostgREST 12.0.3, #3160',
    applies: ({ asked, theirs, ours }) =>
      accepts(asked, /list/) &&
      hasParameter(asked, /^select$/) &&
      ours.status < 300 &&
      (theirs.status < 300 || /^22/.test(codeOf(theirs))),
  },
  {
    rule: 'A function is planned with the values that it is given, and they are looked at first, also where no row is asked for',
    source: 'PostgREST 13, #2858',
    applies: ({ asked, theirs, ours }) =>
      asked.path.startsWith('/rpc') &&
      (asked.method !== 'POST' || /form/.test(asked.headers['Content-Type'] ?? '')) &&
      codeOf(ours).startsWith('22') &&
      (isPlan(theirs) ||
        /^(22|42601)/.test(codeOf(theirs)) ||
        /^RST1(03|16)$/.test(codeOf(theirs)) ||
        (isDone(theirs) &&
          (/^\*/.test(theirs.headers['content-range'] ?? '') ||
            asked.query.some(([name, value]) => name === 'limit' && value.trim() === '0')))),
  },
  {
    rule: 'What cannot be parsed of a raised error is told',
    source: 'PostgREST 12.2, #3404',
    parts: ['message', 'details', 'hint'],
    applies: ({ theirs, ours }) => codeOf(theirs) === 'RST121' && codeOf(ours) === 'RST121',
  },
  {
    rule: 'A schema that is not served is named in the message, and those that are in the hint',
    source: 'PostgREST 14, #4089',
    parts: ['message', 'hint'],
    applies: ({ theirs, ours }) => codeOf(theirs) === 'RST106' && codeOf(ours) === 'RST106',
  },
  {
    rule: 'A role that is not there is 401',
    source: 'PostgREST 14, #3601',
    parts: ['status', 'header www-authenticate'],
    applies: ({ ours }) => ours.status === 401 && codeOf(ours) === '22023',
  },
]

/** What the contract says, and what docs/rest.md tells users. */
const own: readonly Exception[] = [
  {
    rule: '42501 without a valid token is 400, and so asks for no token',
    source: 'the contract: errors of the database',
    parts: ['status', 'header www-authenticate'],
    applies: ({ theirs, ours }) => codeOf(ours) === '42501' && theirs.status === 401 && ours.status === 400,
  },
  {
    rule: 'A body of a type that is not taken is 415 and RST107',
    source: 'the contract: own errors',
    parts: ['status', 'code', 'message'],
    applies: ({ theirs, ours }) => ours.status === 415 && codeOf(ours) === 'RST107' && codeOf(theirs) === 'RST102',
  },
  {
    rule: 'Access-Control-Allow-Origin is there for requests without Origin as well',
    source: 'docs/rest.md: `Access-Control-Allow-Origin: *` is there for requests without `Origin` as well',
    parts: ['header access-control-allow-origin', 'header access-control-expose-headers'],
    applies: ({ asked, theirs, ours }) =>
      (asked.headers.Origin === undefined || asked.method === 'OPTIONS') &&
      theirs.headers['access-control-allow-origin'] === undefined &&
      ours.headers['access-control-allow-origin'] === '*',
  },
  {
    rule: 'Vary says what the answer depends on',
    source: 'docs/rest.md: `Vary` names what an answer depends on',
    parts: ['header vary'],
    applies: ({ asked, theirs, ours }) =>
      theirs.headers.vary === undefined &&
      /^(GET|HEAD)$/.test(asked.method) &&
      /^Accept, .*Accept-Profile$/.test(ours.headers.vary ?? ''),
  },
  {
    rule: 'A value of an update that no row takes is refused or not, as Postgres decides',
    source: 'docs/rest.md: whether it looks at a value of an update that no row takes',
    applies: ({ asked, theirs, ours }) =>
      asked.method === 'PATCH' &&
      [theirs, ours].some(answer => isDone(answer) && answer.headers['content-range']?.startsWith('*/') === true) &&
      [theirs, ours].some(answer => /^22...$/.test(codeOf(answer))),
  },
  {
    rule: 'Headers of a raised error may be left out',
    source: 'docs/rest.md: `headers` may be left out of the detail of a raised `PGRST`',
    applies: ({ theirs, ours }) => codeOf(theirs) === 'RST121' && codeOf(ours) !== 'RST121',
  },
  {
    rule: 'A status below 200 is refused',
    source: 'docs/rest.md: A `response.status` below 200, which would end no answer, is RST112',
    applies: ({ theirs, ours }) => theirs.status < 200 && codeOf(ours) === 'RST112',
  },
  {
    rule: 'A value that is no object or list reaches a function of one unnamed parameter as it is',
    source:
      'docs/rest.md: A body that is neither object nor list reaches a function of one unnamed `json` or `jsonb` parameter as it is',
    parts: ['body'],
    applies: ({ asked, theirs, ours }) =>
      /^\/rpc\/(json|jsonb|mixed)_body$/.test(asked.path) && isDone(ours) && theirs.text.includes('[]'),
  },
  {
    rule: 'The names over CSV of rows with conversions that a function returns are those of their columns',
    source: 'docs/rest.md: In answers its columns come in the order of `select`',
    parts: ['body'],
    applies: ({ asked, theirs, ours }) => {
      // Cells are not where their names are: each row has the same letters without the names, or the same values.
      const values = (text: string) => [...new Set(text.replaceAll(/["\\{}[\]]/g, '').split(','))].sort().join()
      const letters = (text: string) => [...text.replaceAll(/[",]/g, '')].sort().join('')
      const rowsOf = (answer: Answer, shown: (text: string) => string) =>
        bodyOf(asked, answer)
          .split('\n')
          .slice(1)
          .map(row => shown(row.replaceAll(/(^|,)[^=,]*=/g, '$1').replaceAll(/\s/g, '')))
          .sort()
          .join('\n')
      return (
        (asked.path.startsWith('/rpc') || isWrite(asked)) &&
        ours.headers['content-type'] === 'text/csv; charset=utf-8' &&
        [values, letters].some(shown => rowsOf(theirs, shown) === rowsOf(ours, shown))
      )
    },
  },
  {
    rule: 'CSV of no rows has no names',
    source: 'docs/rest.md: without rows there are no names',
    parts: ['body'],
    applies: ({ asked, ours }) => asked.path.startsWith('/rpc') && ours.text === '\n',
  },
  {
    rule: 'A row that a trigger skips has not been inserted',
    source: 'docs/rest.md: An upsert of rows that a trigger skips is 200',
    parts: ['status'],
    applies: ({ asked, theirs, ours }) =>
      asked.path === '/picky' &&
      prefers(asked, /merge-duplicates/) &&
      asked.body?.includes('skip') === true &&
      theirs.status === 201 &&
      ours.status === 200,
  },
  {
    rule: 'One object of a set of values is that value',
    source: 'docs/rest.md: `application/vnd.pgrst.object+json` of a function that returns a set of values is the value',
    parts: ['body'],
    applies: ({ theirs, ours }) => theirs.text === `{"pgrst_scalar":${ours.text}}`,
  },
  {
    rule: 'A body without names is not dropped',
    source: 'docs/rest.md: A body of `text/plain`, `text/xml` or bytes calls no function that has named parameters',
    applies: ({ asked, theirs, ours }) =>
      /^(text\/(plain|xml)|application\/octet-stream)$/.test(asked.headers['Content-Type'] ?? '') &&
      codeOf(theirs) !== 'RST202' &&
      codeOf(ours) === 'RST202',
  },
  {
    rule: 'JSON is read whether or not columns names its keys',
    source: 'docs/rest.md: It is checked to be JSON also where `columns` names its keys',
    applies: ({ asked, ours }) =>
      hasParameter(asked, /^columns$/) && codeOf(ours) === 'RST102' && !isJson(asked.body ?? ''),
  },
  {
    rule: 'A value of a function that a page or a filter leaves out is no value, and not counted',
    source: 'docs/rest.md: A value that a handler makes and that a page or a filter leaves out is no value',
    applies: ({ asked, theirs, ours }) =>
      (asked.method === 'HEAD' || /^\/rpc\/(page|download|anything)$/.test(asked.path)) &&
      theirs.headers['content-range'] === '*/0' &&
      isDone(ours),
  },
  {
    rule: 'Content-Location names the request as it was sent, in UTF-8, encoded, and each parameter by itself',
    source: 'docs/rest.md: `Content-Location` and `Location` are encoded as URLs have to be, in UTF-8',
    parts: ['header content-location'],
    applies: ({ asked, theirs, ours }) =>
      theirs.headers['content-location'] !== undefined && ours.headers['content-location'] === locationOf(asked),
  },
  {
    rule: 'Location is in UTF-8, encoded',
    source: 'docs/rest.md: `Content-Location` and `Location` are encoded as URLs have to be, in UTF-8',
    parts: ['header location'],
    applies: ({ asked, theirs, ours }) =>
      (/%/.test(asked.path) || /[^\x20-\x7e]/.test(asked.body ?? '')) &&
      decoded(theirs.headers.location) === decoded(ours.headers.location),
  },
  {
    rule: 'CSV is read by RFC 4180, and its faults are told in words of their own',
    source: 'docs/rest.md: CSV is read by RFC 4180',
    applies: ({ asked, theirs, ours }) =>
      asked.headers['Content-Type'] === 'text/csv' &&
      (codeOf(theirs) === 'RST102' || codeOf(ours) === 'RST102' || /^\s*\n/.test(asked.body ?? '')),
  },
  {
    rule: 'OPTIONS names the methods of a function whatever its parameters',
    source: 'docs/rest.md: `OPTIONS` names the methods of a function whatever its parameters',
    applies: ({ asked, theirs, ours }) =>
      asked.method === 'OPTIONS' && /^RST(107|122|202|203)$/.test(codeOf(theirs)) && isDone(ours),
  },
  {
    rule: 'Of several rows with defaults that Postgres refuses it decides which it tells, and says what they hold as it was sent',
    source: 'docs/rest.md: of several relations, values and embeddings that Postgres refuses, it decides which',
    applies: ({ asked, theirs, ours }) =>
      isWrite(asked) &&
      prefers(asked, /missing=default/) &&
      [theirs, ours].every(answer => /^(22|23|42|44|P0)...$/.test(codeOf(answer))),
  },
  {
    rule: 'Paths of order, limit and offset have to be embedded in a write as in a read',
    source: 'PostgREST 13, #3013',
    applies: ({ asked, ours }) =>
      isWrite(asked) && hasParameter(asked, /\.(order|limit|offset)$/) && codeOf(ours) === 'RST108',
  },
  {
    rule: 'JSON is stored as it was sent, where missing columns have their defaults as well',
    source: 'docs/rest.md: With `missing=default`, too, JSON is stored in a column of `json` or text as it was sent',
    parts: ['body'],
    applies: ({ asked, theirs, ours }) =>
      prefers(asked, /missing=default/) && theirs.text.replaceAll(/\s/g, '') === ours.text.replaceAll(/\s/g, ''),
  },
  {
    rule: 'JSON that is neither object nor list is not wrapped into a list',
    source: 'PostgREST 12.2, #2676',
    parts: ['message'],
    applies: ({ ours }) => ours.text.includes('cannot call json_to_recordset on a scalar'),
  },
  {
    rule: 'Retry-After stands where waiting helps',
    source: 'docs/rest.md: 503 with `Retry-After`',
    parts: ['header retry-after'],
    applies: ({ theirs, ours }) => ours.status === 503 || theirs.status === 503,
  },
]

/** What differs between any two servers. */
const theirOwn: readonly Exception[] = [
  {
    rule: 'A plan is one of our statement',
    source: 'docs/rest.md: Plans are those of our statements',
    parts: ['body'],
    applies: ({ theirs, ours }) => isDone(theirs) && isDone(ours) && isPlan(theirs) && isPlan(ours),
  },
]

export const ofWrites: readonly Exception[] = [...changes, ...own, ...theirOwn]
