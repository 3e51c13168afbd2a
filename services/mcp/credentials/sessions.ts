/**
 * Sessions of users who have logged in. Each session has one token, which is valid for 24 hours. Only memory contains
 * the token's digest. The number of sessions is limited per user and in total. At a limit, the oldest session is
 * evicted.
 */
import { LRUCache } from 'lru-cache'
import type { UserEntry } from './files.ts'
import { digestOf, newSessionToken } from './secrets.ts'

const lifetimeMs = 86_400_000
const mostSessions = 20_000
const mostOfOneUser = 100

export type Session = {
  readonly username: string
  /** A unique id that reveals nothing about the token. */
  readonly id: string
  readonly expiresAt: number
  /** The user's entry at login. It applies if the user is no longer in the file. */
  readonly user: UserEntry
}

export type Sessions = {
  begin(username: string, user: UserEntry): { readonly token: string; readonly expiresAt: number }
  /** Returns undefined if the token is unknown or expired. */
  find(token: string): Session | undefined
}

/**
 * @param nameOf makes the user's token from a random text without padding, because a token can have padding only at its
 *   end
 */
export function createSessions(now: () => number, nameOf?: (random: string) => string): Sessions {
  const byDigest = new LRUCache<string, Session>({
    // With `max`, the cache would allocate memory for all sessions at once.
    maxSize: mostSessions,
    sizeCalculation: () => 1,
    dispose: ({ username }, digest) => forget(username, digest),
  })
  const byUser = new Map<string, Set<string>>()

  function forget(username: string, digest: string): void {
    const own = byUser.get(username)
    own?.delete(digest)
    if (own?.size === 0) byUser.delete(username)
  }

  function evictOldest(own: Set<string>): void {
    for (const digest of [...own]) {
      const session = byDigest.peek(digest)
      if (session === undefined || session.expiresAt <= now()) byDigest.delete(digest)
    }
    const [first] = own
    if (own.size >= mostOfOneUser && first !== undefined) byDigest.delete(first)
  }

  return {
    begin(username, user) {
      const random = newSessionToken()
      const token = nameOf === undefined ? random : nameOf(random.replace(/=+$/, ''))
      const digest = digestOf(token)
      const expiresAt = now() + lifetimeMs
      evictOldest(byUser.get(username) ?? new Set())
      const own = byUser.get(username) ?? new Set<string>()
      byUser.set(username, own.add(digest))
      byDigest.set(digest, { username, id: digestOf(digest).slice(0, 32), expiresAt, user })
      return { token, expiresAt }
    },
    find(token) {
      const digest = digestOf(token)
      // `peek` keeps the order of creation, so that the oldest session is evicted first.
      const session = byDigest.peek(digest)
      if (session === undefined) return undefined
      if (session.expiresAt > now()) return session
      byDigest.delete(digest)
      return undefined
    },
  }
}
