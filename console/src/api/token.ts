/** Reads the claims of a token, only for display. The API verifies the token. */
type Claims = { label: string; tenant: string; subject: string; expiresAt: number | undefined }

/** Returns the payload of a JWT. Returns undefined if the text is not a JWT. */
function payloadOf(token: string): Record<string, unknown> | undefined {
  try {
    const part = token.split('.')[1] ?? ''
    const bytes = Uint8Array.from(atob(part.replaceAll('-', '+').replaceAll('_', '/')), one => one.charCodeAt(0))
    const value: unknown = JSON.parse(new TextDecoder().decode(bytes))
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value.slice(0, 100) : '')

export function claimsOf(token: string): Claims {
  const payload = payloadOf(token) ?? {}
  const [tenant, subject] = [textOf(payload.tenant), textOf(payload.email) || textOf(payload.sub)]
  const expiresAt = typeof payload.exp === 'number' ? payload.exp * 1000 : undefined
  return { label: [tenant, subject].filter(text => text !== '').join(' / ') || 'token', tenant, subject, expiresAt }
}
