/** What a provider fails with. The texts name provider and problem, and have no key, no body of a request and no path of a URL. */

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
  /** The message without what the provider said: that may repeat a part of the request. */
  readonly summary: string

  constructor(kind: ProviderFault, provider: string, problem: string, status?: number, said = '') {
    const summary = `${provider} ${problem}`
    super(said === '' ? summary : `${summary}: ${said}`)
    this.summary = summary
    this.name = 'ProviderError'
    this.kind = kind
    this.provider = provider
    this.status = status
  }
}
