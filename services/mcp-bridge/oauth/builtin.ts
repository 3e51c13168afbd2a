/** Users that the configuration names. What is wrong, name or password, is told to nobody, by the time it takes either. */

import { isPassword } from '../../authentication/password.ts'
import type { Scope } from '../../mcp-protocol/scopes.ts'
import { type AttemptLimits, Attempts } from './attempts.ts'
import type { BuiltinUser } from './settings.ts'

export type Identity = {
  /** Never given to another. */
  readonly subject: string
  readonly username: string
  readonly scopes: readonly Scope[]
}

type LoginResult =
  | { readonly kind: 'identity'; readonly identity: Identity }
  | { readonly kind: 'wrong' | 'limited' | 'busy' }

/** Each takes memory and a thread. */
const mostAtOnce = 16
const longestPassword = 1_024

export class BuiltinUsers {
  readonly #users: ReadonlyMap<string, BuiltinUser>
  readonly #attempts: Attempts
  /** Of some user: whoever is not there takes as long. */
  readonly #anyHash: string | undefined
  #running = 0

  constructor(users: readonly BuiltinUser[], limits: AttemptLimits, now: () => number) {
    this.#users = new Map(users.map(user => [user.username, user]))
    this.#attempts = new Attempts(limits, now)
    this.#anyHash = users[0]?.passwordHash
  }

  scopesOf(username: string): readonly Scope[] {
    return this.#users.get(username)?.scopes ?? []
  }

  async login(username: string, password: string, address: string): Promise<LoginResult> {
    if (this.#attempts.isLimited(address, username)) return { kind: 'limited' }
    if (this.#running >= mostAtOnce) return { kind: 'busy' }
    // Counted at once, so that many guesses at one time are as many.
    this.#attempts.failed(address, username)
    this.#running += 1
    try {
      const user = this.#users.get(username)
      const isRight =
        password.length <= longestPassword && (await isPassword(password, user?.passwordHash, this.#anyHash))
      if (!isRight || user === undefined) return { kind: 'wrong' }
      this.#attempts.succeeded(address, username)
      return { kind: 'identity', identity: { subject: username, username, scopes: user.scopes } }
    } finally {
      this.#running -= 1
    }
  }
}
