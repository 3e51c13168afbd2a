/** What goes with a 401 (RFC 6750 section 3). */
// @ts-nocheck


/** With a description the token is at fault; without one, none came. The description holds neither a quote nor a backslash. */
export const bearerChallenge = (description?: string): [name: string, value: string] => [
  'WWW-Authenticate',
  description === undefined ? 'Bearer' : `Bearer error="invalid_token", error_description="${description}"`,
]
