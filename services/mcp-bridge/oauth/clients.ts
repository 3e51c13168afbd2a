/** All kinds of clients: configured clients, registered clients, and clients whose id is a metadata document. */
import { timingSafeEqual } from 'node:crypto'
import { z } from 'zod'
import { networkOf } from '../../http/address.ts'
import type { Scope } from '../../mcp-protocol/scopes.ts'
import { type ClientDocuments, isDocumentId } from './client-documents.ts'
import { OAuthError } from './errors.ts'
import { hashOf, type Store, secretText } from './records.ts'
import { isAllowedRedirect } from './redirect.ts'
import type { ConfiguredClient } from './settings.ts'

export type Client = {
  readonly clientId: string
  readonly clientName: string
  readonly redirectUris: readonly string[]
  /** undefined for a public client. */
  readonly secretHash: string | undefined
  /** Scopes for tokens without a user. */
  readonly ownScopes: readonly Scope[]
  /** Whether the configuration names the client. Then a login at the identity provider needs no consent page. */
  readonly isKnown: boolean
}

type ClientsSettings = {
  readonly clients: readonly ConfiguredClient[]
  readonly allowClientIdMetadata: boolean
  readonly allowedRedirectUris: readonly string[]
}

const registrationSchema = z.object({
  redirect_uris: z.array(z.string().max(2_000)).min(1).max(20),
  client_name: z.string().max(200).optional(),
  token_endpoint_auth_method: z.enum(['none', 'client_secret_post', 'client_secret_basic']).optional(),
  grant_types: z.array(z.string().max(100)).max(10).optional(),
  response_types: z.array(z.string().max(100)).max(10).optional(),
})

const unusedSeconds = 86_400
const usedSeconds = 31_536_000

/** Removes invisible characters, which could disguise a name on pages and in logs. */
const visible = (text: string) => text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, ' ').trim()

/** A client that is not in the configuration. */
const unconfigured = (clientId: string) => ({ clientId, secretHash: undefined, ownScopes: [], isKnown: false })

export class Clients {
  readonly #settings: ClientsSettings
  readonly #store: Store
  readonly #documents: ClientDocuments

  constructor(settings: ClientsSettings, store: Store, documents: ClientDocuments) {
    this.#settings = settings
    this.#store = store
    this.#documents = documents
  }

  /** `address`: the caller's address. @throws OAuthError if the id is unknown */
  async find(clientId: string, address: string): Promise<Client> {
    if (!isDocumentId(clientId) || !this.#settings.allowClientIdMetadata) return this.#stored(clientId)
    const { clientName, redirectUris } = await this.#documents.get(clientId, networkOf(address))
    return {
      ...unconfigured(clientId),
      clientName: visible(clientName),
      redirectUris: redirectUris.filter(uri =>
        isAllowedRedirect(uri, this.#settings.allowedRedirectUris, new URL(clientId).origin),
      ),
    }
  }

  /** @throws OAuthError if the id is unknown */
  async #stored(clientId: string): Promise<Client> {
    const configured = this.#settings.clients.find(one => one.clientId === clientId)
    if (configured !== undefined) {
      const { clientName, secretSha256, redirectUris, ownScopes } = configured
      const secretHash = secretSha256 && Buffer.from(secretSha256, 'hex').toString('base64url')
      return { clientId, clientName, secretHash, redirectUris, ownScopes, isKnown: true }
    }
    const registered = await this.#store.get('client', hashOf(clientId))
    if (registered === undefined) throw new OAuthError('invalid_client', 'the client_id is unknown')
    const { clientName, redirectUris, secretHash } = registered
    return { ...unconfigured(clientId), clientName, redirectUris, secretHash }
  }

  /**
   * Authenticates the client of a token request. A client with a metadata document has no secret, so the server does
   * not fetch the document again.
   * @throws OAuthError
   */
  async authenticate(
    clientId: string,
    secret: string | undefined,
  ): Promise<Pick<Client, 'clientId' | 'ownScopes' | 'secretHash'>> {
    if (isDocumentId(clientId)) return { clientId, ownScopes: [], secretHash: undefined }
    const client = await this.#stored(clientId)
    if (client.secretHash === undefined) return client
    const received = Buffer.from(hashOf(secret ?? ''))
    const right = Buffer.from(client.secretHash)
    if (secret === undefined || received.length !== right.length || !timingSafeEqual(received, right))
      throw new OAuthError('invalid_client', 'the client_secret is missing or wrong')
    return client
  }

  /**
   * Registers a client (RFC 7591). `address`: the caller's address. Returns the response to the client. @throws
   * OAuthError
   */
  async register(body: unknown, address: string): Promise<{ readonly [field: string]: unknown }> {
    const read = registrationSchema.safeParse(body)
    if (!read.success) {
      const [issue] = read.error.issues
      const code = issue?.path[0] === 'redirect_uris' ? 'invalid_redirect_uri' : 'invalid_client_metadata'
      throw new OAuthError(code, `${issue?.path.join('.') || 'the body'}: ${issue?.message ?? 'is invalid'}`)
    }
    const { redirect_uris: redirectUris, client_name = 'unnamed client', token_endpoint_auth_method } = read.data
    if (!redirectUris.every(uri => isAllowedRedirect(uri, this.#settings.allowedRedirectUris)))
      throw new OAuthError('invalid_redirect_uri', 'redirect_uris: must be in oauth_server.allowed_redirect_uris')
    const clientId = `dyn-${secretText().slice(0, 24)}`
    const secret = (token_endpoint_auth_method ?? 'none') === 'none' ? undefined : secretText()
    const clientName = visible(client_name) || 'unnamed client'
    const issuedAt = Math.floor(Date.now() / 1_000)
    const secretHash = secret && hashOf(secret)
    const value = { clientName, redirectUris, issuedAt, ...(secretHash && { secretHash }) }
    const owner = networkOf(address)
    const offered = { kind: 'client', owner, key: hashOf(clientId), value, lifetimeSeconds: unusedSeconds } as const
    if (!(await this.#store.offer(offered)))
      throw new OAuthError('temporarily_unavailable', 'the maximum number of clients is registered')
    return {
      client_id: clientId,
      client_id_issued_at: issuedAt,
      ...(secret !== undefined && { client_secret: secret, client_secret_expires_at: 0 }),
      redirect_uris: redirectUris,
      client_name: clientName,
      token_endpoint_auth_method: secret === undefined ? 'none' : 'client_secret_post',
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
    }
  }

  /** A client to which a user has granted access is kept for a year, other clients for a day. */
  async keep(clientId: string): Promise<void> {
    await this.#store.extend('client', hashOf(clientId), usedSeconds)
  }
}
