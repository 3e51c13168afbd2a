import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { checkClaims, parseClaims, roleName } from './claims.ts'
import { AuthenticationError } from './errors.ts'

const now = 1_700_000_000
const parse = (text: string) => parseClaims(Buffer.from(text))

/** The error for the claims. If a claim is not a number, the error has the claim's name. */
function refusal(run: () => unknown): string | undefined {
  try {
    run()
  } catch (error) {
    if (!(error instanceof AuthenticationError) || error.refusal.kind !== 'claims') throw error
    const { fault } = error.refusal
    return fault.kind === 'not a number' ? `${fault.claim} is not a number` : fault.kind
  }
  return undefined
}

describe('parsing', () => {
  test.each(['', 'null', '[]', '"text"', '1', '12345678901234567890', '{', '{"a":1}}'])('%j is refused', text => {
    expect(refusal(() => parse(text))).toBe('not an object')
  })

  test('bytes that are not UTF-8 are refused', () => {
    expect(refusal(() => parseClaims(Buffer.from('{"role":"\xff"}', 'latin1')))).toBe('not an object')
  })

  test('claims may nest 64 deep, and not deeper', () => {
    const nested = (levels: number) => `{"a":${'['.repeat(levels)}${']'.repeat(levels)}}`
    expect(refusal(() => parse(nested(63)))).toBeUndefined()
    expect(refusal(() => parse(nested(64)))).toBe('not an object')
    expect(refusal(() => parse(nested(100_000)))).toBe('not an object')
  })

  test('numbers keep all digits', () => {
    const text =
      '{"id":9007199254740993,"neg":-12345678901234567890,"pi":3.14159265358979323846,"big":1e400,"n":1.5,"i":7}'
    expect(JSON.stringify(parse(text))).toBe(text)
    expect(parse(text)).toMatchObject({ n: 1.5, i: 7 })
  })

  test('claims are frozen at every depth', () => {
    const claims = parse('{"a":{"b":[{"c":1}]},"__proto__":{"role":"x"}}')
    const frozen = (value: unknown): boolean =>
      typeof value !== 'object' || value === null || (Object.isFrozen(value) && Object.values(value).every(frozen))
    expect(frozen(claims)).toBe(true)
    expect(claims.role).toBeUndefined()
  })

  test('any JSON object is returned unchanged', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 4 })), object => {
        const text = JSON.stringify(object)
        expect(JSON.stringify(parse(text))).toBe(text)
      }),
    )
  })
})

describe('time', () => {
  const refusalOf = (text: string) => refusal(() => checkClaims(parse(text), undefined, now * 1000 + 999))

  test.each([
    [`{"exp":${now - 30}}`, undefined],
    [`{"exp":${now - 31}}`, 'expired'],
    [`{"exp":${now - 30.5}}`, 'expired'],
    [`{"nbf":${now + 30}}`, undefined],
    [`{"nbf":${now + 31}}`, 'not yet valid'],
    [`{"nbf":${now + 30.5}}`, 'not yet valid'],
    [`{"iat":${now + 30}}`, undefined],
    [`{"iat":${now + 31}}`, 'issued in the future'],
    ['{"exp":null,"nbf":null,"iat":null}', undefined],
    ['{"exp":99999999999999999999}', undefined],
    ['{"exp":1e400}', undefined],
    ['{"nbf":99999999999999999999}', 'not yet valid'],
    ['{"exp":"invalid"}', 'exp is not a number'],
    ['{"nbf":true}', 'nbf is not a number'],
    ['{"iat":[1]}', 'iat is not a number'],
    ['{"iat":"x","exp":1}', 'expired'],
    ['{}', undefined],
  ])('%s: %s', (text, message) => {
    expect(refusalOf(text)).toBe(message)
  })
})

describe('audience', () => {
  const wrongType = 'audience of a wrong type'
  test.each([
    ['{}', undefined],
    ['{"aud":null}', undefined],
    ['{"aud":[]}', undefined],
    ['{"aud":"ours"}', undefined],
    ['{"aud":["theirs","ours"]}', undefined],
    ['{"aud":""}', 'other audience'],
    ['{"aud":"OURS"}', 'other audience'],
    ['{"aud":"ours "}', 'other audience'],
    ['{"aud":["theirs"]}', 'other audience'],
    ['{"aud":1}', wrongType],
    ['{"aud":{}}', wrongType],
    ['{"aud":["ours",1]}', wrongType],
    ['{"aud":["ours",null]}', wrongType],
    ['{"aud":[["ours"]]}', wrongType],
  ])('%s, if "ours" is required: %s', (text, message) => {
    expect(refusal(() => checkClaims(parse(text), 'ours', now * 1000))).toBe(message)
  })

  test('any audience is accepted if none is required', () => {
    fc.assert(
      fc.property(fc.jsonValue(), aud => {
        expect(refusal(() => checkClaims(parse(JSON.stringify({ aud })), undefined, now * 1000))).toBeUndefined()
      }),
    )
  })
})

describe('role', () => {
  test.each([
    [undefined, undefined],
    ['author', 'author'],
    ['null', 'null'],
    [null, 'null'],
    [7, '7'],
    [['a'], '["a"]'],
    [{ a: 'b' }, '{"a":"b"}'],
  ])('%j gives the role %s', (value, name) => {
    expect(roleName(value)).toBe(name)
  })

  test.each(['', 'none', 'a\0b'])('%j is not a role', value => {
    expect(refusal(() => roleName(value))).toBe('no role name')
  })
})
