/** Hashes of passwords for tests. */
import { hashPassword } from '../password.ts'

/** Made with little work, so that tests may log in often. */
export const quickHash = (password: string): Promise<string> => hashPassword(password, { logN: 4, r: 1, p: 1 })
