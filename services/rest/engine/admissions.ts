import { SieveCache } from '../../cache/sieve.ts'

/**
 * Caches granted privileges as long as the schema cache lives. If a privilege is revoked meanwhile, Postgres still
 * refuses the statement itself.
 */
export type Admissions = SieveCache<true>
/** Each entry is for a role that Postgres has accepted. */
const maximumEntries = 10_000
export const noAdmissions = (): Admissions => new SieveCache(maximumEntries)
