/** Where a provider is asked, and as whom. What is wrong with the address shows when the endpoint is made, not at the first call. */
import { ProviderError } from './errors.ts'

/** How one provider's HTTP API is reached when nothing else is said, and how it takes its key. */
export type Protocol = {
  readonly provider: string
  readonly defaultBaseUrl: string
  readonly keyHeaders: (key: string) => Readonly<Record<string, string>>
}

export type EndpointSettings = {
  readonly apiKey: string | undefined
  readonly baseUrl: string | undefined
  /** Of one request to the provider, with the tries that it takes. */
  readonly timeoutMs: number
}

export type Endpoint = {
  readonly provider: string
  /** Without a slash at its end. */
  readonly base: string
  readonly headers: Readonly<Record<string, string>>
  /** What must not be told to anyone. */
  readonly secret: string | undefined
  readonly timeoutMs: number
}

/** Prefixes of paths belong to the protocol: a base that is a host alone takes the path of the default. */
function baseOf({ provider, defaultBaseUrl }: Protocol, configured: string | undefined): string {
  const url = URL.parse(configured ?? defaultBaseUrl)
  const isUsable = url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === ''
  if (!isUsable || url.search !== '' || url.hash !== '') {
    throw new ProviderError(
      'refused',
      provider,
      'cannot be asked: its base URL must be http or https, without user, query or fragment',
    )
  }
  const path = url.pathname === '/' ? new URL(defaultBaseUrl).pathname : url.pathname
  return url.origin + path.replace(/\/+$/, '')
}

/** @throws ProviderError where the base URL cannot be used */
export const endpointOf = (protocol: Protocol, { apiKey, baseUrl, timeoutMs }: EndpointSettings): Endpoint => ({
  provider: protocol.provider,
  base: baseOf(protocol, baseUrl),
  headers: apiKey === undefined ? {} : protocol.keyHeaders(apiKey),
  secret: apiKey,
  timeoutMs,
})

export const bearer = (key: string) => ({ authorization: `Bearer ${key}` })
