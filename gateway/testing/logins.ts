/** Limits for tests whose clients and targets never perform a login. */
import { loginLimits } from '../logins.ts'

export const anyLogins = {
  ...loginLimits,
  perAddress: 100_000,
  perRoute: 100_000,
  waitingPerAddress: 100_000,
  waitingPerAddressInAll: 100_000,
  silentPerAddress: 100_000,
}
