/** Errors between the operator and a Postgres, distinguished by how to handle them. */

export type PostgresErrorReason =
  /** The server exists, and starts, recovers or stops. */
  | 'starting'
  /** The server refuses the operator's certificate. */
  | 'auth'
  /** No server listens at the address. */
  | 'network'
  /** No machine accepts a connection at the address, and none refuses it. */
  | 'silent'
  /** The server does not prove that it is this database, or does not support TLS. */
  | 'tls'
  /** The server has no free connection, lock or memory at present. */
  | 'busy'
  /** The server did not answer in time. */
  | 'timeout'
  /** The server refused a statement. `code`: why. */
  | 'statement'

/** Reasons that mean only that Postgres, or the network, is slow. */
export const slowReasons: ReadonlySet<string> = new Set(['timeout', 'busy'] satisfies PostgresErrorReason[])

/** SQLSTATE disk_full (Postgres manual, appendix A). */
export const diskFull = '53100'

export class PostgresError extends Error {
  override readonly name = 'PostgresError'
  readonly reason: PostgresErrorReason
  /** SQLSTATE, or Node's code of a network or TLS error. */
  readonly code: string | undefined
  constructor(reason: PostgresErrorReason, message: string, code?: string) {
    super(message)
    this.reason = reason
    this.code = code
  }
}

/** SQLSTATE to reason; PostgreSQL manual, appendix A. No class begins with E, as Node's codes do (EPIPE). */
const byState: [pattern: RegExp, reason: PostgresErrorReason][] = [
  [/^57P0[1-5]$/, 'starting'],
  [/^28/, 'auth'],
  [/^(53[0234]00|55P03|40P01|40001)$/, 'busy'],
  [/^57014$/, 'timeout'],
  [/^[0-9FHPX][0-9A-Z]{4}$/, 'statement'],
]

const tlsCode =
  /^(ERR_TLS|ERR_SSL|ERR_OSSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|HOSTNAME_MISMATCH|INVALID_PURPOSE|INVALID_CA)/
const tlsMessage = /server does not support SSL|SSL (negotiation|connection)/i
const timeoutMessage = /timeout/i

function reasonFor(code: string | undefined, message: string): PostgresErrorReason {
  if (code !== undefined && tlsCode.test(code)) return 'tls'
  if (tlsMessage.test(message)) return 'tls'
  if (code === undefined) return timeoutMessage.test(message) ? 'timeout' : 'network'
  return byState.find(([pattern]) => pattern.test(code))?.[1] ?? 'network'
}

/** Whether the error can end without a change: Postgres is unreachable, starting, slow or out of space. */
export const isPassing = (error: unknown): error is PostgresError =>
  error instanceof PostgresError && (error.reason !== 'statement' || error.code === diskFull)

/**
 * Converts any error of a connection to a PostgresError. Its message is the server's primary message, without detail,
 * hint or statement. Everything that could be a verifier is removed.
 */
export function postgresErrorOf(error: unknown): PostgresError {
  if (error instanceof PostgresError) return error
  const message = error instanceof Error ? error.message : String(error)
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
  return new PostgresError(reasonFor(code, message), message.replaceAll(/SCRAM-SHA-256\$\S*/g, '[verifier]'), code)
}
