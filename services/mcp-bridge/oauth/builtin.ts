/** Users from the configuration. A wrong name and a wrong password take the same time and cause the same error. */

import { hash } from 'node:crypto'
import { type FailedAttempts, limitFailedAttempts } from '../../authentication/failed-attempts.ts'
import { isPassword } from '../../authentication/password.ts'
import type { Scope } from '../../mcp-protocol/scopes.ts'
import type { BuiltinUser } from './settings.ts'

export type Identity = {
  /** A unique id that is never reused for another user. */
  readonly subject: string
  readonly username: string
  readonly scopes: readonly Scope[]
}

type LoginResult =
  | { readonly kind: 'identity'; readonly identity: Identity }
  | { readonly kind: 'wrong' | 'limited' | 'busy' }

type AttemptLimits = { readonly maximum: number; readonly windowMs: number }

/** An account allows more failures than an address. So an attacker needs many addresses to lock a user out. */
const accountFactor = 5
const digestOf = (username: string): string => hash('sha256', username, 'base64')

/** The maximum number of concurrent password checks. Each check takes memory and a thread. */
const mostAtOnce = 16
const longestPassword = 1_024

export class BuiltinUsers {
  readonly #users: ReadonlyMap<string, BuiltinUser>
  readonly #byAddress: FailedAttempts
  readonly #byAccount: FailedAttempts
  /** A user's hash for logins with an unknown name, so that they take as long as other logins. */
  readonly #anyHash: string | undefined
  #running = 0

  constructor(users: readonly BuiltinUser[], { maximum, windowMs }: AttemptLimits, now: () => number) {
    this.#users = new Map(users.map(user => [user.username, user]))
    this.#byAddress = limitFailedAttempts({ windowMs, most: maximum }, now)
    this.#byAccount = limitFailedAttempts({ windowMs, most: maximum * accountFactor }, now, digestOf)
    this.#anyHash = users[0]?.passwordHash
  }

  scopesOf(username: string): readonly Scope[] {
    return this.#users.get(username)?.scopes ?? []
  }

  async login(username: string, password: string, address: string): Promise<LoginResult> {
    // The attempt counts before the check, so that parallel guesses count too.
    const fromAddress = this.#byAddress.begin(address)
    if (fromAddress.kind === 'limited') return { kind: 'limited' }
    const onAccount = this.#byAccount.begin(username)
    if (onAccount.kind === 'limited' || this.#running >= mostAtOnce) {
      fromAddress.succeeded()
      if (onAccount.kind === 'allowed') onAccount.succeeded()
      return { kind: onAccount.kind === 'limited' ? 'limited' : 'busy' }
    }
    this.#running += 1
    try {
      const user = this.#users.get(username)
      const isRight =
        password.length <= longestPassword && (await isPassword(password, user?.passwordHash, this.#anyHash))
      if (!isRight || user === undefined) return { kind: 'wrong' }
      // Clears only this attempt, because an attacker with the same address may have an account too.
      fromAddress.succeeded()
      this.#byAccount.forget(username)
      return { kind: 'identity', identity: { subject: username, username, scopes: user.scopes } }
    } finally {
      this.#running -= 1
    }
  }
}
