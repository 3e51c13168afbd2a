import { SieveCache } from '../../cache/sieve.ts'

/**
 * Caches granted privileges until the state is reloaded. If a privilege is revoked meanwhile, Postgres still refuses
 * the statement itself.
 */
export type Admissions = SieveCache<true>
/** Contains only pairs of a role and a statement kind on an object that Postgres has not refused. */
const maximumEntries = 10_000
export const noAdmissions = (): Admissions => new SieveCache(maximumEntries)
