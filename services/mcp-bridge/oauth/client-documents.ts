/**
 * Client ID metadata documents: a client's id is the https address of the client's own description. A client can name
 * any address, so fetches are restricted. The server connects only to a public address, and only to the address that it
 * checked. It follows no redirects, limits size and time, and caches documents.
 */
import { lookup as systemLookup } from 'node:dns/promises'
import { request } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import { isPublicAddress } from './addresses.ts'
import { OAuthError } from './errors.ts'
import { isRedirectUri } from './redirect.ts'

const largestBytes = 5_120
const timeLimitMs = 5_000
const leastCacheMs = 60_000
const usualCacheMs = 300_000
const mostCacheMs = 3_600_000
const mostFetches = 8
/**
 * The maximum number of concurrent name lookups. They use the same threads as password checks and file access, and a
 * silent name server blocks a thread for a long time.
 */
const mostLookups = 2
/**
 * The share of both limits that one network may use. Otherwise, names of unresponsive hosts could block other clients.
 */
const partOfOne = 0.5

type ClientDocument = { readonly clientName: string; readonly redirectUris: readonly string[] }

/** Access to the network. Tests replace it, because they can reach only loopback. */
export type Outside = {
  readonly resolve: (hostname: string) => Promise<readonly { readonly address: string; readonly family: number }[]>
  readonly isPublic: (address: string) => boolean
  readonly authority?: string
}

export const internet: Outside = {
  resolve: hostname => systemLookup(hostname, { all: true }),
  isPublic: isPublicAddress,
}

const documentSchema = z.object({
  client_id: z.string(),
  client_name: z.string().max(200).optional(),
  redirect_uris: z.array(z.string().max(2_000)).min(1).max(20),
  token_endpoint_auth_method: z.literal('none').optional(),
  client_secret: z.undefined({ error: 'a public document must not contain a secret' }).optional(),
})

/** Whether an id is an https address with a path. Refuses a fragment, credentials and dot segments. */
export function isDocumentId(id: string): boolean {
  if (!id.startsWith('https://') || id.length > 2_000 || id.includes('#') || !URL.canParse(id)) return false
  const url = new URL(id)
  const hasPath = url.pathname !== '/' && url.pathname !== ''
  // The URL must already be in normal form, without dot segments or an unusual spelling of the host.
  return hasPath && url.username === '' && url.password === '' && url.href === id
}

function cacheTime(header: string | undefined): number {
  if (header !== undefined && /no-store|no-cache/i.test(header)) return leastCacheMs
  const seconds = /max-age=(\d{1,9})/i.exec(header ?? '')?.[1]
  if (seconds === undefined) return usualCacheMs
  return Math.min(mostCacheMs, Math.max(leastCacheMs, Number(seconds) * 1_000))
}

/** @throws OAuthError if one of the host's addresses is not public */
async function checkedAddress(hostname: string, { resolve, isPublic }: Outside) {
  const bare = hostname.replace(/^\[|\]$/g, '')
  const found = isIP(bare) === 0 ? await resolve(bare) : [{ address: bare, family: isIP(bare) }]
  const [first] = found
  if (first === undefined || !found.every(({ address }) => isPublic(address)))
    throw new OAuthError('invalid_client', 'the client_id is at an address that is not public')
  return first
}

type Fetched = { readonly text: string; readonly cacheControl: string | undefined }

function fetchFrom(
  url: URL,
  at: { readonly address: string; readonly family: number },
  outside: Outside,
): Promise<Fetched> {
  // Always returns the address that was checked.
  const lookup: LookupFunction = (_, options, done) =>
    options.all === true ? done(null, [at]) : done(null, at.address, at.family)
  return new Promise((resolve, reject) => {
    const fail = (why: string) => reject(new OAuthError('invalid_client', `the document of the client_id ${why}`))
    const outgoing = request(
      url,
      {
        lookup,
        agent: false,
        headers: { Accept: 'application/json' },
        signal: AbortSignal.timeout(timeLimitMs),
        ...(outside.authority !== undefined && { ca: outside.authority }),
      },
      response => {
        const type = (response.headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase() ?? ''
        const refuse = (why: string) => {
          response.destroy()
          fail(why)
        }
        if (response.statusCode !== 200) return refuse(`was answered with status ${response.statusCode}`)
        if (!/^application\/(json|[\w.-]+\+json)$/.test(type)) return refuse('is not JSON')
        let bytes = 0
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => {
          bytes += chunk.length
          if (bytes > largestBytes) refuse(`is larger than ${largestBytes} bytes`)
          else chunks.push(chunk)
        })
        response.on('error', () => fail('ended early'))
        response.on('end', () =>
          resolve({ text: Buffer.concat(chunks).toString(), cacheControl: response.headers['cache-control'] }),
        )
      },
    )
    outgoing.on('error', () => fail('cannot be fetched'))
    outgoing.end()
  })
}

function readDocument(id: string, text: string): ClientDocument {
  const refuse = (why: string) => new OAuthError('invalid_client', `the document of the client_id ${why}`)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw refuse('is not valid JSON')
  }
  const read = documentSchema.safeParse(value)
  if (!read.success) {
    const [issue] = read.error.issues
    throw refuse(`has an invalid ${issue?.path.join('.') || 'form'}`)
  }
  const { client_id, client_name, redirect_uris } = read.data
  if (client_id !== id) throw refuse('names another client_id')
  if (!redirect_uris.every(isRedirectUri))
    throw refuse('has a redirect URI that is neither https, nor loopback, nor of a private scheme')
  return { clientName: client_name ?? new URL(id).hostname, redirectUris: redirect_uris }
}

/** Limits concurrent operations, in total and per network. */
class Shares {
  readonly #most: number
  readonly #taken = new Map<string, number>()
  #all = 0

  constructor(most: number) {
    this.#most = most
  }

  /** Returns a function that releases the slot. @throws OAuthError if no slot is free */
  take(client: string): () => void {
    const own = this.#taken.get(client) ?? 0
    if (this.#all >= this.#most || own >= this.#most * partOfOne)
      throw new OAuthError('temporarily_unavailable', 'too many clients are being looked up')
    this.#all += 1
    this.#taken.set(client, own + 1)
    return () => {
      this.#all -= 1
      const remaining = (this.#taken.get(client) ?? 1) - 1
      if (remaining > 0) this.#taken.set(client, remaining)
      else this.#taken.delete(client)
    }
  }
}

export class ClientDocuments {
  readonly #outside: Outside
  readonly #cache = new LRUCache<string, ClientDocument>({ max: 500 })
  readonly #fetches = new Shares(mostFetches)
  readonly #lookups = new Shares(mostLookups)

  constructor(outside: Outside) {
    this.#outside = outside
  }

  async #addressOf({ hostname }: URL, client: string) {
    const done = this.#lookups.take(client)
    try {
      return await checkedAddress(hostname, this.#outside)
    } catch (error) {
      throw error instanceof OAuthError
        ? error
        : new OAuthError('invalid_client', 'the host of the client_id is unknown')
    } finally {
      done()
    }
  }

  /**
   * `client`: the caller's network. @throws OAuthError with the document's problem, or the reason why the fetch failed
   */
  async get(id: string, client: string): Promise<ClientDocument> {
    const known = this.#cache.get(id)
    if (known !== undefined) return known
    const done = this.#fetches.take(client)
    try {
      const url = new URL(id)
      const at = await this.#addressOf(url, client)
      const { text, cacheControl } = await fetchFrom(url, at, this.#outside)
      const document = readDocument(id, text)
      this.#cache.set(id, document, { ttl: cacheTime(cacheControl) })
      return document
    } finally {
      done()
    }
  }
}
