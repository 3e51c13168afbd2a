/** All checks, in the order of the report. */
import { cacheCheck, connectionCheck, replicationCheck, transactionCheck } from './activity.ts'
import type { Check } from './check.ts'
import { indexCheck } from './indexes.ts'
import { sequenceCheck, wraparoundCheck } from './numbers.ts'
import { bloatCheck, vacuumCheck } from './storage.ts'

export const checks: readonly Check[] = [
  wraparoundCheck,
  sequenceCheck,
  connectionCheck,
  transactionCheck,
  replicationCheck,
  vacuumCheck,
  bloatCheck,
  indexCheck,
  cacheCheck,
]
