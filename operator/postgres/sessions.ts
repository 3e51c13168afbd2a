/** Connects to a Postgres: with a client certificate that the server trusts, and with the lock on its roles. */
import { type Authority, type CertifiedKey, issueClientCertificate, needsRenewal } from '../pki/index.ts'
import { maintenanceDatabase, operatorCommonName } from './configuration.ts'
import { type Connection, type PostgresTarget, withConnection } from './connection.ts'
import { PostgresError } from './errors.ts'

/** `known`: other authorities that servers may trust instead. */
export type SigningAuthorities = Authority & { known?: readonly Authority[] }

type Work<T> = (connection: Connection) => Promise<T>

export type Sessions = {
  /** Connects to a database and runs `work`. `version`: the server's, if known. */
  connect<T>(target: PostgresTarget, database: string, signal: AbortSignal, work: Work<T>, version?: number): Promise<T>
  /** Connects to the platform's database and runs `work` while no other operator changes roles or opens a copy. */
  locked<T>(target: PostgresTarget, signal: AbortSignal, work: Work<T>): Promise<T>
}

/**
 * The lock ends with the connection. Postgres ends a frozen operator's session (`idle_session_timeout` in
 * connection.ts). No user can take the lock: advisory locks belong to a database, and only the operator can connect to
 * this one.
 */
const roleLock = 'SELECT pg_advisory_lock(7231904)'

export function createSessions(authority: SigningAuthorities, now: () => number): Sessions {
  const certificates = (authority.known ?? [authority]).map(issuer => clientCertificate(issuer, now))

  /**
   * Tries a certificate of each authority. The server may not trust the newest authority yet, or may no longer trust an
   * older one.
   */
  const connect: Sessions['connect'] = async (target, database, signal, work, version) => {
    let refused: unknown
    for (const certificate of certificates)
      try {
        return await withConnection(target, database, certificate(), signal, work, version)
      } catch (error) {
        if (!isRefusal(error)) throw error
        refused ??= error
      }
    throw refused
  }

  return {
    connect,
    locked: (target, signal, work) =>
      connect(target, maintenanceDatabase, signal, async connection => {
        await connection.rows(roleLock)
        return work(connection)
      }),
  }
}

/** The operator's client certificate from one authority. It is renewed before it expires. */
function clientCertificate(issuer: Authority, now: () => number): () => CertifiedKey {
  let current: CertifiedKey | undefined
  return () => {
    if (current === undefined || needsRenewal(current.cert, now))
      current = issueClientCertificate(issuer, { commonName: operatorCommonName }, now)
    return current
  }
}

/**
 * A server that does not trust a client's certificate may close the connection after the client has finished its side
 * of the handshake.
 */
const isRefusal = (error: unknown): boolean =>
  error instanceof PostgresError &&
  (error.reason === 'tls' || error.reason === 'auth' || error.code === 'ECONNRESET' || error.code === 'EPIPE')
