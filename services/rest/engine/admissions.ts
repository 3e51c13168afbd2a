import { SieveCache } from '../../cache/sieve.ts'

/**
 * Who has been found to have a privilege for what. It lives as long as the schema cache; who loses the privilege meanwhile is refused by Postgres all the same.
 */
export type Admissions = SieveCache<true>
/** Each is of a role that Postgres has let ask. */
const maximumKept = 10_000
export const noAdmissions = (): Admissions => new SieveCache(maximumKept)
