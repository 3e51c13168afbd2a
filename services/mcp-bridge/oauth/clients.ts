/** Clients of all kinds: those that the configuration names, those that have registered, and those whose id is a document. */
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
  /** undefined: a public client. */
  readonly secretHash: string | undefined
  /** Without a user. */
  readonly ownScopes: readonly Scope[]
  /** Named by the configuration: who runs this server vouches for it. */
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

/** Written into pages and logs: what is no visible character would disguise the rest. */
const visible = (text: string) => text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, ' ').trim()

/** One that the configuration does not name. */
const stranger = (clientId: string) => ({ clientId, secretHash: undefined, ownScopes: [], isKnown: false })

export class Clients {
  readonly #settings: ClientsSettings
  readonly #store: Store
  readonly #documents: ClientDocuments

  constructor(settings: ClientsSettings, store: Store, documents: ClientDocuments) {
    this.#settings = settings
    this.#store = store
    this.#documents = documents
  }

  /** `address`: who asks for it. @throws OAuthError where there is none of this id */
  async find(clientId: string, address: string): Promise<Client> {
    if (!isDocumentId(clientId) || !this.#settings.allowClientIdMetadata) return this.#kept(clientId)
    const { clientName, redirectUris } = await this.#documents.get(clientId, networkOf(address))
    return {
      ...stranger(clientId),
      clientName: visible(clientName),
      redirectUris: redirectUris.filter(uri =>
        isAllowedRedirect(uri, this.#settings.allowedRedirectUris, new URL(clientId).origin),
      ),
    }
  }

  /** @throws OAuthError where there is none of this id */
  async #kept(clientId: string): Promise<Client> {
    const configured = this.#settings.clients.find(one => one.clientId === clientId)
    if (configured !== undefined) {
      const { clientName, secretSha256, redirectUris, ownScopes } = configured
      const secretHash = secretSha256 && Buffer.from(secretSha256, 'hex').toString('base64url')
      return { clientId, clientName, secretHash, redirectUris, ownScopes, isKnown: true }
    }
    const registered = await this.#store.get('client', hashOf(clientId))
    if (registered === undefined) throw new OAuthError('invalid_client', 'the client_id is unknown')
    const { clientName, redirectUris, secretHash } = registered
    return { ...stranger(clientId), clientName, redirectUris, secretHash }
  }

  /**
   * Who asks for tokens. A document needs not be fetched again for it: such a client has no secret.
   * @throws OAuthError
   */
  async authenticate(
    clientId: string,
    secret: string | undefined,
  ): Promise<Pick<Client, 'clientId' | 'ownScopes' | 'secretHash'>> {
    if (isDocumentId(clientId)) return { clientId, ownScopes: [], secretHash: undefined }
    const client = await this.#kept(clientId)
    if (client.secretHash === undefined) return client
    const given = Buffer.from(hashOf(secret ?? ''))
    const right = Buffer.from(client.secretHash)
    if (secret === undefined || given.length !== right.length || !timingSafeEqual(given, right))
      throw new OAuthError('invalid_client', 'the client_secret is missing or wrong')
    return client
  }

  /** RFC 7591. `address`: whose client it is. @returns what the client is told. @throws OAuthError */
  async register(body: unknown, address: string): Promise<{ readonly [field: string]: unknown }> {
    const read = registrationSchema.safeParse(body)
    if (!read.success) {
      const [issue] = read.error.issues
      const code = issue?.path[0] === 'redirect_uris' ? 'invalid_redirect_uri' : 'invalid_client_metadata'
      throw new OAuthError(code, `${issue?.path.join('.') || 'the body'}: ${issue?.message ?? 'is wrong'}`)
    }
    const { redirect_uris: redirectUris, client_name = 'unnamed client', token_endpoint_auth_method } = read.data
    if (!redirectUris.every(uri => isAllowedRedirect(uri, this.#settings.allowedRedirectUris)))
      throw new OAuthError(
        'invalid_redirect_uri',
        'redirect_uris: must be among those that oauth_server.allowed_redirect_uris lists',
      )
    const clientId = `dyn-${secretText().slice(0, 24)}`
    const secret = (token_endpoint_auth_method ?? 'none') === 'none' ? undefined : secretText()
    const clientName = visible(client_name) || 'unnamed client'
    const issuedAt = Math.floor(Date.now() / 1_000)
    const secretHash = secret && hashOf(secret)
    const value = { clientName, redirectUris, issuedAt, ...(secretHash && { secretHash }) }
    const owner = networkOf(address)
    const offered = { kind: 'client', owner, key: hashOf(clientId), value, lifetimeSeconds: unusedSeconds } as const
    if (!(await this.#store.offer(offered)))
      throw new OAuthError('temporarily_unavailable', 'there are as many clients as there may be')
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

  /** One that a user has allowed something stays for a year; others for a day. */
  async keep(clientId: string): Promise<void> {
    await this.#store.extend('client', hashOf(clientId), usedSeconds)
  }
}
