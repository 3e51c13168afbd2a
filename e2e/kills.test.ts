/**
 * Rounds of kills on an embedded installation. `make soak` runs 40, or the number in ESPALIER_KILL_ROUNDS.
 * ESPALIER_SOAK_SEED repeats the random choices.
 */
import { expect, test } from 'vitest'
import { startEmbeddedTarget } from './kills/embedded.ts'
import { roundCount } from './kills/round-count.ts'
import { runRounds } from './kills/rounds.ts'
import { seed } from './kubernetes/chance.ts'

const rounds = roundCount(40)

test.skipIf(rounds === 0)(
  'operations that can wait do not fail, and no acknowledged row is lost, while processes of an embedded installation are killed',
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
