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
  /** Of one try; undefined: as long as the request may take. */
  readonly attemptTimeoutMs?: number
  /** Sent with each request. They replace those of the provider's protocol. */
  readonly headers?: Readonly<Record<string, string>>
  /** How often a request is sent again that a busy or failing provider did not answer. */
  readonly retries?: number
  /** A provider that asks for a longer pause before the next try is not asked again. */
  readonly longestPauseMs?: number
}

export type Endpoint = {
  readonly provider: string
  /** Without a slash at its end. */
  readonly base: string
  readonly headers: Readonly<Record<string, string>>
  /** What no error may repeat. */
  readonly secrets: readonly string[]
  readonly timeoutMs: number
  readonly attemptTimeoutMs: number
  readonly retries: number
  readonly longestPauseMs: number
}

const usualRetries = 3
/** Shorter values of headers are names and versions rather than keys. */
const shortestSecret = 8

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

/** A value such as `Bearer KEY` is a secret, and so is its last word. */
const secretsOf = (apiKey: string | undefined, headers: readonly string[]): readonly string[] =>
  [
    ...(apiKey === undefined ? [] : [apiKey]),
    ...headers
      .flatMap(value => [value, value.split(' ').at(-1) ?? ''])
      .filter(({ length }) => length >= shortestSecret),
  ]
    .filter(secret => secret !== '')
    // The longest first, so that no part of one is left.
    .toSorted((one, other) => other.length - one.length)

/** @throws ProviderError where the base URL cannot be used */
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
