/** Hashes of passwords for tests. */
import { hashPassword } from '../password.ts'

/** Hashes with a low cost, so that tests can log in often. */
export const quickHash = (password: string): Promise<string> => hashPassword(password, { logN: 4, r: 1, p: 1 })
