/**
 * The steps of replacing an authority. Whatever is requested meanwhile, client and server always trust a common
 * authority.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Authority } from '../pki/index.ts'
import { nextStep, type Waits } from './rotation.ts'
import { type AuthorityState, mostAuthorities, readState, signingOf, stateDraft, trustOf } from './state.ts'

const named = (name: string): Authority => ({ cert: `${name}\n`, key: `key of ${name}` })
const waits: Waits = { announceMs: 1000, settleMs: 100 }
const start = Date.parse('2026-01-01T00:00:00Z')
const first: AuthorityState = {
  authorities: [{ ...named('a'), use: 'signs' }],
  changedAt: new Date(start).toISOString(),
}
const always = () => true
const uses = ({ authorities }: AuthorityState) =>
  Object.fromEntries(authorities.map(({ cert, use }) => [cert.trim(), use]))

const stored = (state: AuthorityState) => ({
  ...stateDraft(state, 'told'),
  apiVersion: 'v1' as const,
  kind: 'Secret' as const,
})

/** Continues until no step is left. Returns every state in between. */
function follow(state: AuthorityState, desired: Authority): AuthorityState[] {
  const states = [state]
  for (let now = start; ; ) {
    const last = states.at(-1) ?? state
    const decision = nextStep(last, desired, { isLoaded: always, now }, waits)
    if (decision.do === 'rest') return states
    if (decision.do === 'change') states.push(decision.to)
    else if (decision.do === 'wait') now = decision.until
    else throw new Error('every server has loaded all')
  }
}

describe('an authority', () => {
  test('is replaced in four steps', () => {
    expect(follow(first, named('b')).map(uses)).toEqual([
      { a: 'signs' },
      { a: 'signs', b: 'trusted' },
      { a: 'trusted', b: 'signs' },
      { a: 'retired', b: 'signs' },
      { b: 'signs' },
    ])
  })

  test('that signs already needs no step', () => {
    expect(nextStep(first, named('a'), { isLoaded: () => false, now: start }, waits)).toEqual({ do: 'rest' })
  })

  test('signs only after its announcement time, and after every server has loaded it', () => {
    const [, announced = first] = follow(first, named('b'))
    const at = (ms: number, isLoaded: () => boolean) =>
      nextStep(announced, named('b'), { isLoaded, now: Date.parse(announced.changedAt) + ms }, waits).do
    expect([at(999, always), at(1000, () => false), at(1000, always)]).toEqual(['wait', 'await-servers', 'change'])
  })

  test('is checked on servers only after its waiting time', () => {
    const [, announced = first] = follow(first, named('b'))
    const isLoaded = () => {
      throw new Error('looked')
    }
    expect(nextStep(announced, named('b'), { isLoaded, now: Date.parse(announced.changedAt) }, waits).do).toBe('wait')
  })

  test('becomes the only one, whatever else is desired meanwhile, by one step at a time', () => {
    const wishes = fc.array(fc.record({ name: fc.constantFrom('a', 'b', 'c'), steps: fc.nat(4) }), { maxLength: 5 })
    fc.assert(
      fc.property(wishes, fc.constantFrom('a', 'b', 'c'), (changes, last) => {
        let state = first
        const states = [state]
        for (const { name, steps } of changes) {
          const way = follow(state, named(name)).slice(1, 1 + steps)
          states.push(...way)
          state = states.at(-1) ?? state
        }
        states.push(...follow(state, named(last)).slice(1))
        expect(uses(states.at(-1) ?? state)).toEqual({ [last]: 'signs' })
        for (const [index, after] of states.entries()) {
          const before = states[index - 1]
          if (before === undefined) continue
          const [old, young] = [trustOf(before, []), trustOf(after, [])]
          // A server that is one step behind accepts the operator, and presents a certificate that the operator
          // accepts.
          expect(young.known.some(({ cert }) => old.bundle.includes(cert))).toBe(true)
          expect(young.accepted).toContain(old.cert)
          // Everything in the previous state trusts certificates that are issued now, and vice versa.
          expect(old.bundle).toContain(young.cert)
          expect(young.bundle.includes(old.cert) || !before.authorities.some(({ use }) => use === 'trusted')).toBe(true)
        }
      }),
    )
  })
})

describe('more desired authorities than the state has space for', () => {
  const names = Array.from({ length: 3 * mostAuthorities }, (_, index) => `n${index}`)

  test('wait, and finally the last desired one signs', () => {
    let state = first
    let now = start
    /** At most one step, whatever its duration. */
    const step = (name: string) => {
      const decision = nextStep(state, named(name), { isLoaded: always, now }, waits)
      if (decision.do === 'change') state = decision.to
      else if (decision.do === 'wait') now = decision.until
      expect(readState(stored(state)), 'the state is readable').toEqual(state)
      expect(uses(state).a, 'the signing authority is kept').toBe('signs')
    }
    for (const name of names) step(name)
    expect(state.authorities.length).toBeLessThanOrEqual(mostAuthorities)
    expect(uses(follow(state, named('z')).at(-1) ?? state)).toEqual({ z: 'signs' })
  })
})

test('a step does not wait until a time that a wrong clock wrote', () => {
  const [, announced = first] = follow(first, named('b'))
  const ahead = { ...announced, changedAt: '2099-01-01T00:00:00Z' }
  const decision = nextStep(ahead, named('b'), { isLoaded: always, now: start }, waits)
  expect(decision).toMatchObject({ do: 'change', to: { ...announced, changedAt: new Date(start).toISOString() } })
  // If two operators have slightly different clocks, neither writes the time again.
  const nearly = { ...announced, changedAt: new Date(start + waits.settleMs).toISOString() }
  expect(nextStep(nearly, named('b'), { isLoaded: always, now: start }, waits).do).toBe('wait')
})

describe('the state', () => {
  test('is written to a Secret and read from it', () => {
    const [, announced = first] = follow(first, named('b'))
    expect(readState(stored(announced))).toEqual(announced)
    expect(signingOf(announced).cert).toBe(named('a').cert)
  })
  test.each([
    ['nothing', undefined],
    ['no JSON', '{'],
    [
      'two signing authorities',
      JSON.stringify({ ...first, authorities: [...first.authorities, ...first.authorities] }),
    ],
    ['no signing authority', JSON.stringify({ ...first, authorities: [] })],
  ])('with %s counts as no state', (_, text) => {
    const data: Record<string, string> =
      text === undefined ? {} : { 'state.json': Buffer.from(text).toString('base64') }
    expect(readState({ ...stored(first), data })).toBeUndefined()
  })
})
