/** The header that goes with a 401, or with a 403 for want of a scope (RFC 6750 section 3). */

type Challenge = {
  /** Without one, no token was sent. */
  readonly error?: 'invalid_token' | 'insufficient_scope' | undefined
  readonly error_description?: string | undefined
  readonly scope?: string | undefined
  /** Where a client finds out how to get a token (RFC 9728). */
  readonly resource_metadata?: string | undefined
}

/** Quotes and backslashes in a value are removed. */
export function bearerChallenge(challenge: Challenge = {}): [name: string, value: string] {
  const parameters = Object.entries(challenge).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}="${value.replace(/["\\]/g, '')}"`],
  )
  return ['WWW-Authenticate', parameters.length === 0 ? 'Bearer' : `Bearer ${parameters.join(', ')}`]
}
