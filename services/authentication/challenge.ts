/** The WWW-Authenticate header of a 401, or of a 403 if a scope is missing (RFC 6750, section 3). */

type Challenge = {
  /** Undefined: the client sent no token. */
  readonly error?: 'invalid_token' | 'insufficient_scope' | undefined
  readonly error_description?: string | undefined
  readonly scope?: string | undefined
  /** The URL of the protected resource metadata (RFC 9728). */
  readonly resource_metadata?: string | undefined
}

/** Removes quotes and backslashes from values. */
export function bearerChallenge(challenge: Challenge = {}): [name: string, value: string] {
  const parameters = Object.entries(challenge).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}="${value.replace(/["\\]/g, '')}"`],
  )
  return ['WWW-Authenticate', parameters.length === 0 ? 'Bearer' : `Bearer ${parameters.join(', ')}`]
}
