/** A provider's address and credentials. Creating the endpoint reports an invalid address, not the first call. */
import { ProviderError } from './errors.ts'

/** Defaults of a provider's HTTP API, and the way it receives its key. */
export type Protocol = {
  readonly provider: string
  readonly defaultBaseUrl: string
  readonly keyHeaders: (key: string) => Readonly<Record<string, string>>
}

export type EndpointSettings = {
  readonly apiKey: string | undefined
  readonly baseUrl: string | undefined
  /** The timeout of one request to the provider, including retries. */
  readonly timeoutMs: number
  /** The timeout of one attempt; undefined: only the request's timeout applies. */
  readonly attemptTimeoutMs?: number
  /** Headers of each request. They replace headers of the provider's protocol. */
  readonly headers?: Readonly<Record<string, string>>
  /** The maximum number of retries if the provider is busy or fails. */
  readonly retries?: number
  /** The longest delay before a retry. If a provider requests a longer delay, the request fails. */
  readonly longestPauseMs?: number
}

export type Endpoint = {
  readonly provider: string
  /** The base URL without a trailing slash. */
  readonly base: string
  readonly headers: Readonly<Record<string, string>>
  /** Secrets that no error may contain. */
  readonly secrets: readonly string[]
  readonly timeoutMs: number
  readonly attemptTimeoutMs: number
  readonly retries: number
  readonly longestPauseMs: number
}

const usualRetries = 3
/** Only header values of at least this length are secrets. Shorter values are names and versions rather than keys. */
const shortestSecret = 8

/** A path prefix belongs to the protocol. So a base URL without a path gets the default URL's path. */
function baseOf({ provider, defaultBaseUrl }: Protocol, configured: string | undefined): string {
  const url = URL.parse(configured ?? defaultBaseUrl)
  const isUsable = url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === ''
  if (!isUsable || url.search !== '' || url.hash !== '') {
    throw new ProviderError(
      'refused',
      provider,
      'cannot be used: its base URL must be http or https, without user, query or fragment',
    )
  }
  const path = url.pathname === '/' ? new URL(defaultBaseUrl).pathname : url.pathname
  return url.origin + path.replace(/\/+$/, '')
}

/** Of a value such as `Bearer KEY`, the complete value and the last word are secrets. */
const secretsOf = (apiKey: string | undefined, headers: readonly string[]): readonly string[] =>
  [
    ...(apiKey === undefined ? [] : [apiKey]),
    ...headers
      .flatMap(value => [value, value.split(' ').at(-1) ?? ''])
      .filter(({ length }) => length >= shortestSecret),
  ]
    .filter(secret => secret !== '')
    // The longest secret is first, so that no part of a longer secret remains.
    .toSorted((one, other) => other.length - one.length)

/** @throws ProviderError if the base URL is invalid */
export function endpointOf(protocol: Protocol, settings: EndpointSettings): Endpoint {
  const { apiKey, baseUrl, timeoutMs, attemptTimeoutMs = timeoutMs, headers = {} } = settings
  const { retries = usualRetries, longestPauseMs = timeoutMs } = settings
  const own = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value] as const)
  return {
    provider: protocol.provider,
    base: baseOf(protocol, baseUrl),
    headers: { ...(apiKey !== undefined && protocol.keyHeaders(apiKey)), ...Object.fromEntries(own) },
    secrets: secretsOf(apiKey, Object.values(headers)),
    timeoutMs,
    attemptTimeoutMs: Math.min(timeoutMs, attemptTimeoutMs),
    retries,
    longestPauseMs,
  }
}

export const bearer = (key: string) => ({ authorization: `Bearer ${key}` })
