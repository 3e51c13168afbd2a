/** The number of kill rounds: none by default, set by `make soak` or ESPALIER_KILL_ROUNDS. */
import { z } from 'zod'
import { isSoak } from '../../operator/testing/soak.ts'

export const roundCount = (soak: number): number =>
  z.coerce
    .number('ESPALIER_KILL_ROUNDS must be a number')
    .int()
    .min(1)
    .default(isSoak ? soak : 0)
    .parse(process.env.ESPALIER_KILL_ROUNDS || undefined)
