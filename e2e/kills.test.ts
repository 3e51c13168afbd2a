/**
 * Rounds of kills on the embedded default. `make soak` plays 40, or as many as ESPALIER_KILL_ROUNDS says; what chance decides is repeated
 * with ESPALIER_SOAK_SEED.
 */
import { expect, test } from 'vitest'
import { startEmbeddedTarget } from './kills/embedded.ts'
import { roundCount } from './kills/round-count.ts'
import { runRounds } from './kills/rounds.ts'
import { seed } from './kubernetes/chance.ts'

const rounds = roundCount(40)

test.skipIf(rounds === 0)(
  'no operation fails that can wait, and no acknowledged row is lost, while processes of the embedded default are killed',
  async () => {
    console.log(`ESPALIER_SOAK_SEED=${seed}`)
    const target = await startEmbeddedTarget()
    try {
      expect((await runRounds(target, rounds)).faults).toEqual([])
    } finally {
      await target.stop()
    }
  },
  rounds * 600_000,
)
