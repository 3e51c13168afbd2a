/**
 * Errors of providers. Their texts contain the provider and the problem, but no key, no request body and no URL path.
 */

/**
 * `unreachable`: there is no connection, or it broke. `refused`: the provider permanently refuses this request.
 * `limited`: too many requests, or overload. `timeout`: there was no response in time. `malformed`: the response
 * violates the protocol.
 */
type ProviderFault = 'unreachable' | 'refused' | 'limited' | 'timeout' | 'malformed'

export class ProviderError extends Error {
  readonly kind: ProviderFault
  readonly provider: string
  /** The HTTP status of the provider's response, if there was a response. */
  readonly status: number | undefined
  /** The message without the provider's own text, which may contain a part of the request. */
  readonly summary: string

  constructor(kind: ProviderFault, provider: string, problem: string, status?: number, detail = '') {
    const summary = `${provider} ${problem}`
    super(detail === '' ? summary : `${summary}: ${detail}`)
    this.summary = summary
    this.name = 'ProviderError'
    this.kind = kind
    this.provider = provider
    this.status = status
  }
}
