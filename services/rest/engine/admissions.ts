import { SieveCache } from '../../cache/sieve.ts'

/**
 * Caches granted privileges as long as the schema cache is used. If a privilege is revoked meanwhile, Postgres still
 * refuses the statement itself.
 */
export type Admissions = SieveCache<true>
/** Contains only roles that Postgres has accepted. */
const maximumEntries = 10_000
export const noAdmissions = (): Admissions => new SieveCache(maximumEntries)
