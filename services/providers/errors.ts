/** What a provider fails with. The texts name provider and problem; no key, no body of a request and no path of a URL gets into them. */

/**
 * `unreachable`: no connection, or it broke. `refused`: the provider will not answer this request, however often it is sent. `limited`: too many requests, or more than it can
 * take now. `timeout`: no answer in time. `malformed`: an answer that is not what its protocol says.
 */
type ProviderFault = 'unreachable' | 'refused' | 'limited' | 'timeout' | 'malformed'

export class ProviderError extends Error {
  readonly kind: ProviderFault
  readonly provider: string
  /** Of the provider's answer, where there was one. */
  readonly status: number | undefined

  constructor(kind: ProviderFault, provider: string, problem: string, status?: number) {
    super(`${provider} ${problem}`)
    this.name = 'ProviderError'
    this.kind = kind
    this.provider = provider
    this.status = status
  }
}
