/**
 * Rounds of kills on kind. `make soak` runs 20, or the number in ESPALIER_KILL_ROUNDS. ESPALIER_SOAK_SEED repeats the
 * random choices.
 */
import { expect, test } from 'vitest'
import { startKindTarget } from '../kills/kind.ts'
import { roundCount } from '../kills/round-count.ts'
import { runRounds } from '../kills/rounds.ts'
import { seed } from './chance.ts'

const rounds = roundCount(20)

test(
  'operations that can wait do not fail, and no acknowledged row is lost, while processes of the cluster are killed',
  async () => {
    console.log(`ESPALIER_SOAK_SEED=${seed}`)
    const target = await startKindTarget()
    try {
      expect((await runRounds(target, rounds)).faults).toEqual([])
    } finally {
      await target.stop()
    }
  },
  rounds * 900_000,
)
