/** Rules about errors to which later versions give another text or another status. */
import type { Answer } from '../../../../testing/client.ts'
import type { SentRequest } from '../request.ts'
import { operatorOf } from './requests.ts'
import { type Fault, faultOf, hasParameter, ofServer, type Rule, withFault, withHeaders } from './rule.ts'

type Words = Partial<Fault> & { readonly status?: number }

/** The text of later versions. Undefined if the text is the same. */
type Rewording = (fault: Fault, answer: Answer, sent: SentRequest) => Words | undefined

const reworded =
  (...all: readonly Rewording[]): Rule['answers'] =>
  ({ sent, theirs }) => {
    const fault = faultOf(theirs)
    const words = fault && all.map(one => one(fault, theirs, sent)).find(one => one !== undefined)
    if (words === undefined) return []
    const { status = theirs.status, ...more } = words
    return [withFault(theirs, more, status)]
  }

const tokens: Readonly<Record<string, Partial<Fault>>> = {
  'JWSError (JSONDecodeError "Not valid base64url")': { message: 'JWT cryptographic operation failed' },
  'JWSError JWSInvalidSignature': {
    message: 'No suitable key or wrong key type',
    details: 'None of the keys was able to decode the JWT',
  },
  'JWSError JWSNoSignatures': {
    message: 'Wrong or unsupported encoding algorithm',
    details: "JWT is unsecured but expected 'alg' was not 'none'",
  },
  JWTNotYetValid: { code: 'RST303', message: 'JWT not yet valid' },
  'JWT expired': { code: 'RST303' },
}
const parts = /^JWSError \(CompactDecodeError Invalid number of parts: (Expected 3 parts; got \d+)\)$/
const tokenFault = (message: string): Partial<Fault> | undefined =>
  tokens[message] ??
  (parts.test(message) ? { message: message.replace(parts, '$1').replace('parts;', 'parts in JWT;') } : undefined)

/** The service may also read a part of `not_null`, and then reports the error after that part. */
function notTrilean(message: string, unexpected: string, sent: SentRequest): Words {
  const expected = 'isVal: (null, not_null, true, false, unknown)'
  const [, before = '', text = '', , column = ''] =
    /^("failed to parse (?:filter|logic tree) \((.*)\)" (\(line 1, column ))(\d+)\)$/s.exec(message) ?? []
  const start = Number(column) - (before.startsWith('"failed to parse logic') ? operatorOf(sent, text).length : 0) - 2
  const word = text.slice(start, start + 'not_null'.length).toLowerCase()
  let read = 0
  while (read < word.length && word[read] === 'not_null'[read]) read++
  if (read < 2) return { details: `${unexpected} expecting ${expected}` }
  const next = text[start + read]
  return {
    message: `${before}${Number(column) + read - 1})`,
    details: `unexpected ${next === undefined ? 'end of input' : `"${next}"`} expecting ${expected}`,
  }
}

export const ofWording: readonly Rule[] = [
  {
    rule: 'Token errors have their own messages, and claim errors the code RST303',
    source: ['PostgREST 13, #3600 and #3926'],
    answers: ({ theirs }) => {
      const fault = faultOf(theirs)
      const replacement = fault?.code === 'RST301' ? tokenFault(fault.message) : undefined
      if (replacement === undefined) return []
      const message = replacement.message ?? fault?.message
      const challenge = `Bearer error="invalid_token", error_description="${message}"`
      return [withHeaders(withFault(theirs, replacement), { 'www-authenticate': challenge })]
    },
  },
  {
    rule: 'An empty token returns 401 before any other error',
    source: ['PostgREST 13, #3926'],
    answers: ({ sent, theirs }) => {
      if (!/^bearer *$/i.test(sent.headers.Authorization ?? '')) return []
      const message = 'Empty JWT is sent in Authorization header'
      const fault = { code: 'RST301', message, details: null, hint: null }
      const challenge = `Bearer error="invalid_token", error_description="${message}"`
      return [{ ...withFault(theirs, fault, 401), headers: { ...errorHeaders(theirs), 'www-authenticate': challenge } }]
    },
  },
  {
    rule: 'Messages about row counts, unknown columns and operands of is have the words of PostgREST 13',
    source: ['PostgREST 13 and 12.0.3, #3795, #3747, #3361'],
    answers: reworded(
      ({ code }) => (code === 'RST116' ? { message: 'Cannot coerce the result to a single JSON object' } : undefined),
      ({ code, message }) => {
        const [, column, relation] = /^Column '(.*)' of relation '(.*)' does not exist$/s.exec(message) ?? []
        return code === 'RST204' && column !== undefined
          ? { message: `Could not find the '${column}' column of '${relation}' in the schema cache` }
          : undefined
      },
      ({ code, message, details }, _, sent) => {
        const [, unexpected] =
          /^(.*) expecting null or trilean value \(unknown, true, false\)$/.exec(String(details)) ?? []
        return code === 'RST100' && unexpected !== undefined ? notTrilean(message, unexpected, sent) : undefined
      },
    ),
  },
  {
    rule: 'A media type without a handler returns 406; errors 21, 42P17, 53400, 54 and 55 return 500',
    source: ['PostgREST 12.0.3 and 12.2, #3224, #3205, #3256, #3267, #3255'],
    answers: reworded(
      ({ code }, { status }) => (code === 'RST107' && status === 415 ? { status: 406 } : undefined),
      ({ code }, { status }) => (ofServer.test(code) && status !== 500 ? { status: 500 } : undefined),
    ),
  },
  {
    rule: '42501 without a valid token returns 400 without WWW-Authenticate',
    source: ['the contract: errors of the database'],
    answers: ({ theirs }) =>
      faultOf(theirs)?.code === '42501' && theirs.status === 401
        ? [withHeaders({ ...theirs, status: 400 }, { 'www-authenticate': undefined })]
        : [],
  },
  {
    rule: 'A role that does not exist returns 401',
    source: ['PostgREST 14, #3601'],
    answers: ({ theirs }) => {
      const fault = faultOf(theirs)
      return fault?.code === '22023' && /^role ".*" does not exist$/.test(fault.message)
        ? [withHeaders({ ...theirs, status: 401 }, { 'www-authenticate': 'Bearer' })]
        : []
    },
  },
  {
    rule: 'An unsupported body type returns 415 and RST107',
    source: ['the contract: own errors'],
    answers: ({ sent, theirs }) => {
      const fault = faultOf(theirs)
      const type = sent.headers['Content-Type']
      return fault?.code === 'RST102' && fault.message.startsWith('Content-Type not acceptable: ')
        ? [withFault(theirs, { code: 'RST107', message: `Content-Type not acceptable: ${type}` }, 415)]
        : []
    },
  },
  {
    rule: 'Retry-After is sent with 503 alone',
    source: ['docs/rest.md: 503 with `Retry-After`'],
    answers: ({ theirs }) => {
      const wait = theirs.status === 503 ? '1' : undefined
      return theirs.headers['retry-after'] === wait ? [] : [withHeaders(theirs, { 'retry-after': wait })]
    },
  },
  {
    rule: 'RST121 reports the part of a raised error that is not JSON',
    source: ['PostgREST 12.2, #3404'],
    answers: ({ sent, theirs }) => {
      if (faultOf(theirs)?.code !== 'RST121') return []
      const { state, message = 'failed', detail = '' } = argumentsOf(sent)
      const isMessage = isRaised(message, ['code', 'message'])
      const [part, value] = isMessage ? ['DETAIL', detail] : ['MESSAGE', message]
      const keys = isMessage
        ? "'status', 'headers' and optional key: 'status_text'"
        : "'code', 'message' and optional keys: 'details', 'hint'"
      return [
        withFault(theirs, {
          message: `Could not parse JSON in the "RAISE SQLSTATE '${state}'" error`,
          details: `Invalid JSON value for ${part}: '${value}'`,
          hint: `${part} must be a JSON object with obligatory keys: ${keys}.`,
        }),
      ]
    },
  },
  {
    rule: 'Groups are ordered, so a type without an order cannot be grouped by',
    source: ['docs/rest.md: Groups of an aggregate are sorted by their columns'],
    answers: facts =>
      hasParameter(facts.sent, /^order$/)
        ? []
        : (reworded(({ message }) =>
            message.startsWith('could not identify an equality operator for type')
              ? {
                  message: message.replace('equality', 'ordering'),
                  hint: 'Use an explicit ordering operator or modify the query.',
                }
              : undefined,
          )?.(facts) ?? []),
  },
]

/** The arguments of a call, if all of them are texts. */
function argumentsOf({ query, headers, body = '' }: SentRequest): Readonly<Record<string, string>> {
  if (/form/.test(headers['Content-Type'] ?? '')) return Object.fromEntries(new URLSearchParams(body))
  const sent: Readonly<Record<string, unknown>> | readonly Readonly<Record<string, unknown>>[] =
    body === '' ? Object.fromEntries(query) : JSON.parse(body)
  const [all = {}] = [sent].flat()
  return Object.fromEntries(
    Object.entries(all).map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]),
  )
}

function isRaised(text: string, keys: readonly string[]): boolean {
  try {
    const value: unknown = JSON.parse(text)
    return (
      typeof value === 'object' &&
      value !== null &&
      keys.every(key => typeof Object.entries(value).find(([name]) => name === key)?.[1] === 'string')
    )
  } catch {
    return false
  }
}

/** For a response that becomes an error. */
function errorHeaders({ headers }: Answer): Answer['headers'] {
  const { 'access-control-allow-origin': origin, 'access-control-expose-headers': exposed } = headers
  return {
    'content-type': 'application/json; charset=utf-8',
    ...(origin === undefined ? {} : { 'access-control-allow-origin': origin }),
    ...(exposed === undefined ? {} : { 'access-control-expose-headers': exposed }),
  }
}
