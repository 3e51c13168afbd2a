/**
 * Sessions of users who have logged in: a token each, for 24 hours, kept as its digest and in memory alone. Their number is bounded, for each
 * user and in all; the one that was begun first makes room.
 */
import { LRUCache } from 'lru-cache'
import type { UserEntry } from './files.ts'
import { digestOf, newSessionToken } from './secrets.ts'

const lifetimeMs = 86_400_000
const mostSessions = 20_000
const mostOfOneUser = 100

export type Session = {
  readonly username: string
  /** Names it among all; says nothing of its token. */
  readonly id: string
  readonly expiresAt: number
  /** As the user was at login, for when the user is not in the file any more. */
  readonly user: UserEntry
}

export type Sessions = {
  begin(username: string, user: UserEntry): { readonly token: string; readonly expiresAt: number }
  /** undefined where there is none with this token, or no more. */
  find(token: string): Session | undefined
}

/** @param nameOf makes the token that a user is given of one without padding, which a token may have at its end alone */
export function createSessions(now: () => number, nameOf?: (random: string) => string): Sessions {
  const byDigest = new LRUCache<string, Session>({
    // By `max` room for all of them would be taken at once.
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

  function makeRoom(own: Set<string>): void {
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
      makeRoom(byUser.get(username) ?? new Set())
      const own = byUser.get(username) ?? new Set<string>()
      byUser.set(username, own.add(digest))
      byDigest.set(digest, { username, id: digestOf(digest).slice(0, 32), expiresAt, user })
      return { token, expiresAt }
    },
    find(token) {
      const digest = digestOf(token)
      // Not by use: the first begun is the first to go.
      const session = byDigest.peek(digest)
      if (session === undefined) return undefined
      if (session.expiresAt > now()) return session
      byDigest.delete(digest)
      return undefined
    },
  }
}
