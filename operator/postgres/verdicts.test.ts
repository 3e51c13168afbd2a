import { describe, expect, test } from 'vitest'
import { fitsVerifier, scramVerifier } from './scram.ts'
import { createVerdicts } from './verdicts.ts'

const signal = new AbortController().signal
const rounds = (count: number, salt: string) => `SCRAM-SHA-256$${count}:${salt}$AAAA:AAAA`

function counting(more: { now?: () => number; mostKept?: number } = {}) {
  let computed = 0
  const verdicts = createVerdicts({
    now: () => 0,
    ...more,
    fits: (password, verifier) => {
      computed++
      return fitsVerifier(password, verifier)
    },
  })
  return { verdicts, computed: () => computed }
}

describe('verdicts', () => {
  test('are computed once for each pair, also for concurrent probes', async () => {
    const { verdicts, computed } = counting()
    const verifier = await scramVerifier('pencil')
    const judge = (password: string) => verdicts.judge(password, verifier, signal)
    expect(await Promise.all([judge('pencil'), judge('pencil')])).toEqual(['fits', 'fits'])
    for (let look = 0; look < 10; look++) expect(await judge('pencil')).toBe('fits')
    expect(computed()).toBe(1)
    expect(await judge('another')).toBe('differs')
    expect(await judge('another')).toBe('differs')
    expect(computed()).toBe(2)
  })

  test('are cached for the latest pairs only', async () => {
    const { verdicts, computed } = counting({ mostKept: 2 })
    const verifiers = await Promise.all(['a', 'b', 'c'].map(password => scramVerifier(password)))
    for (const verifier of verifiers) await verdicts.judge('pencil', verifier, signal)
    for (const verifier of verifiers.toReversed()) await verdicts.judge('pencil', verifier, signal)
    expect(computed()).toBe(4)
  })

  test.each([
    ['more rounds than are ever computed', rounds(100_001, 'AAAA')],
    ['no rounds', rounds(0, 'AAAA')],
    ['another method', 'md5d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0'],
  ])('on a verifier of %s are not computed', async (_, verifier) => {
    const { verdicts, computed } = counting()
    expect(await verdicts.judge('pencil', verifier, signal)).toBe('differs')
    expect(computed()).toBe(0)
  })

  test('on verifiers with many rounds are delayed when their budget is used up, unlike those of the operator', async () => {
    const { verdicts, computed } = counting()
    // A clock that stands still: 3 s of patience are 1,200,000 rounds, after the 100,000 that begin at once.
    const controller = new AbortController()
    const judged = Array.from({ length: 40 }, (_, index) =>
      verdicts.judge('pencil', rounds(100_000, Buffer.from(`salt ${index}`).toString('base64')), controller.signal),
    )
    const settled = Promise.allSettled(judged)
    expect(await verdicts.judge('pencil', await scramVerifier('pencil'), signal)).toBe('fits')
    controller.abort(new Error('over'))
    const results = await settled
    expect(results.filter(result => result.status === 'fulfilled' && result.value === 'deferred')).toHaveLength(27)
    expect(results.filter(result => result.status === 'rejected').length).toBeGreaterThan(10)
    expect(computed()).toBeLessThan(5)
  })
})
