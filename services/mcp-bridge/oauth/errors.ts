/**
 * Errors of the authorization server, with the codes of RFC 6749, 7591 and 8707. The description says what to fix. It
 * contains no secret.
 */

type OAuthErrorCode =
  | 'invalid_request'
  | 'invalid_client'
  | 'invalid_grant'
  | 'invalid_scope'
  | 'invalid_target'
  | 'unauthorized_client'
  | 'unsupported_grant_type'
  | 'unsupported_response_type'
  | 'access_denied'
  | 'server_error'
  | 'temporarily_unavailable'
  | 'invalid_redirect_uri'
  | 'invalid_client_metadata'

export class OAuthError extends Error {
  readonly code: OAuthErrorCode

  constructor(code: OAuthErrorCode, description: string) {
    super(description)
    this.name = 'OAuthError'
    this.code = code
  }
}

/** An error that a browser shows to the user, because the server has no client address to redirect to. */
export class PageError extends Error {
  readonly status: 400 | 403 | 404 | 405 | 429 | 502 | 503

  constructor(status: PageError['status'], message: string) {
    super(message)
    this.name = 'PageError'
    this.status = status
  }
}
