import { describe, expect, test } from 'vitest'
import { createPasswordChecks } from './password-checks.ts'
import { fitsVerifier, scramVerifier } from './scram.ts'

const signal = new AbortController().signal
const rounds = (count: number, salt: string) => `SCRAM-SHA-256$${count}:${salt}$AAAA:AAAA`

function counting(more: { now?: () => number; mostCached?: number } = {}) {
  let computed = 0
  const passwordChecks = createPasswordChecks({
    now: () => 0,
    ...more,
    fits: (password, verifier) => {
      computed++
      return fitsVerifier(password, verifier)
    },
  })
  return { passwordChecks, computed: () => computed }
}

describe('password checks', () => {
  test('are computed once for each pair, also for concurrent probes', async () => {
    const { passwordChecks, computed } = counting()
    const verifier = await scramVerifier('pencil')
    const check = (password: string) => passwordChecks.check(password, verifier, signal)
    expect(await Promise.all([check('pencil'), check('pencil')])).toEqual(['fits', 'fits'])
    for (let attempt = 0; attempt < 10; attempt++) expect(await check('pencil')).toBe('fits')
    expect(computed()).toBe(1)
    expect(await check('another')).toBe('differs')
    expect(await check('another')).toBe('differs')
    expect(computed()).toBe(2)
  })

  test('are cached for the latest pairs only', async () => {
    const { passwordChecks, computed } = counting({ mostCached: 2 })
    const verifiers = await Promise.all(['a', 'b', 'c'].map(password => scramVerifier(password)))
    for (const verifier of verifiers) await passwordChecks.check('pencil', verifier, signal)
    for (const verifier of verifiers.toReversed()) await passwordChecks.check('pencil', verifier, signal)
    expect(computed()).toBe(4)
  })

  test.each([
    ['more rounds than are ever computed', rounds(100_001, 'AAAA')],
    ['no rounds', rounds(0, 'AAAA')],
    ['another method', 'md5d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0'],
  ])('on a verifier of %s are not computed', async (_, verifier) => {
    const { passwordChecks, computed } = counting()
    expect(await passwordChecks.check('pencil', verifier, signal)).toBe('differs')
    expect(computed()).toBe(0)
  })

  test('on verifiers with many rounds are delayed when their budget is used up, unlike those of the operator', async () => {
    const { passwordChecks, computed } = counting()
    // A clock that does not advance: a timeout of 3 s allows 1,200,000 rounds, after the 100,000 that begin at once.
    const controller = new AbortController()
    const judged = Array.from({ length: 40 }, (_, index) =>
      passwordChecks.check(
        'pencil',
        rounds(100_000, Buffer.from(`salt ${index}`).toString('base64')),
        controller.signal,
      ),
    )
    const pendingResults = Promise.allSettled(judged)
    expect(await passwordChecks.check('pencil', await scramVerifier('pencil'), signal)).toBe('fits')
    controller.abort(new Error('over'))
    const results = await pendingResults
    expect(results.filter(result => result.status === 'fulfilled' && result.value === 'deferred')).toHaveLength(27)
    expect(results.filter(result => result.status === 'rejected').length).toBeGreaterThan(10)
    expect(computed()).toBeLessThan(5)
  })
})
