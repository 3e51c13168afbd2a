/** Errors of providers. The texts contain provider and problem, but no key, no request body and no URL path. */

/**
 * `unreachable`: no connection, or it broke. `refused`: permanent refusal of this request. `limited`: too many
 * requests, or overload. `timeout`: no response in time. `malformed`: a response that violates the protocol.
 */
type ProviderFault = 'unreachable' | 'refused' | 'limited' | 'timeout' | 'malformed'

export class ProviderError extends Error {
  readonly kind: ProviderFault
  readonly provider: string
  /** Status of the provider's response, if there was one. */
  readonly status: number | undefined
  /** The message without the provider's text, which may repeat a part of the request. */
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
