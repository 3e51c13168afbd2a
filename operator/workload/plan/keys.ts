import { type Finding, no } from '../../objects/conditions.ts'
import type { Observed } from '../observed.ts'

/** Which of the installation's keys is missing. Undefined if all exist. Without them the operator does nothing. */
export function missingKey({ keys }: Pick<Observed, 'keys'>): Finding | undefined {
  if (!keys.sealingKey)
    return no('SealingKeyMissing', 'the Secret with the sealing key does not exist: restore it from a backup')
  if (keys.authority) return undefined
  return no('AuthorityMissing', 'the Secret with the certificate authority does not exist: restore it from a backup')
}
