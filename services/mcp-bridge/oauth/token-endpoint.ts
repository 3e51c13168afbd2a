/**
 * The token endpoint. Codes and refresh tokens are valid once. A second use means that an attacker may have stolen the
 * code or token, so it revokes the grant and all its tokens.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { HttpResponse, IncomingBody, RequestHead } from '../../http/message.ts'
import type { Scope } from '../../mcp-protocol/scopes.ts'
import type { AccessTokens } from './access-tokens.ts'
import { resourceOf, scopesOf } from './authorize.ts'
import type { Clients } from './clients.ts'
import { OAuthError } from './errors.ts'
import { type Fields, plainJson, readForm, required } from './form.ts'
import { hashOf, type RecordOf, type Store, secretText } from './records.ts'

type TokenParts = {
  readonly clients: Clients
  readonly store: Store
  readonly tokens: AccessTokens
  readonly resources: readonly string[]
  readonly accessTokenSeconds: number
  readonly refreshTokenSeconds: number
  /** The user's current scopes; empty if the user no longer exists. */
  readonly scopesNow: (subject: string) => readonly Scope[]
}

type Grant = RecordOf<'grant'>

const invalidGrant = () =>
  new OAuthError('invalid_grant', 'the code or token is unknown, expired, used, or of another client')

export class TokenEndpoint {
  readonly #parts: TokenParts

  constructor(parts: TokenParts) {
    this.#parts = parts
  }

  /** @throws OAuthError */
  async answer(head: RequestHead, body: IncomingBody): Promise<HttpResponse> {
    const fields = await readForm(head, body)
    switch (required(fields, 'grant_type')) {
      case 'authorization_code':
        return this.#redeem(fields)
      case 'refresh_token':
        return this.#refresh(fields)
      case 'client_credentials':
        return this.#ownToken(fields)
      default:
        throw new OAuthError(
          'unsupported_grant_type',
          'grant_type must be authorization_code, refresh_token or client_credentials',
        )
    }
  }

  #client(fields: Fields) {
    return this.#parts.clients.authenticate(required(fields, 'client_id'), fields.get('client_secret'))
  }

  async #redeem(fields: Fields): Promise<HttpResponse> {
    const { store, tokens, refreshTokenSeconds } = this.#parts
    const code = required(fields, 'code')
    const redirectUri = required(fields, 'redirect_uri')
    const verifier = required(fields, 'code_verifier')
    const { clientId } = await this.#client(fields)
    const used = await store.use('code', hashOf(code))
    if (used === undefined) throw invalidGrant()
    const { value, isFirst } = used
    const challenge = createHash('sha256').update(verifier).digest('base64url')
    const isRight =
      isFirst &&
      value.clientId === clientId &&
      value.redirectUri === redirectUri &&
      timingSafeEqual(Buffer.from(challenge), Buffer.from(value.codeChallenge))
    const grant = isRight ? await store.get('grant', value.grant) : undefined
    if (grant === undefined || !(await store.extend('grant', value.grant, refreshTokenSeconds))) {
      await tokens.revoke(value.grant)
      throw invalidGrant()
    }
    this.#checkResource(fields, grant)
    return this.#issue(value.grant, grant, grant.scopes)
  }

  /** A token is valid only for the resource to which the user consented. */
  #checkResource(fields: Fields, grant: Grant): void {
    const requested = fields.get('resource')
    if (requested !== undefined && resourceOf(requested, this.#parts.resources) !== grant.resource)
      throw new OAuthError('invalid_target', 'resource: the grant is for another resource')
  }

  async #refresh(fields: Fields): Promise<HttpResponse> {
    const { store, tokens, refreshTokenSeconds } = this.#parts
    const key = hashOf(required(fields, 'refresh_token'))
    const { clientId } = await this.#client(fields)
    const record = await store.get('refresh', key)
    const grant = record && (await store.get('grant', record.grant))
    // An error of another client must not revoke this grant.
    if (record === undefined || grant === undefined || grant.clientId !== clientId) throw invalidGrant()
    this.#checkResource(fields, grant)
    const now = this.#parts.scopesNow(grant.subject)
    const granted = grant.scopes.filter(scope => now.includes(scope))
    if (granted.length === 0) throw invalidGrant()
    const requested = fields.get('scope')
    const scopes = requested === undefined ? granted : scopesOf(requested).filter(scope => granted.includes(scope))
    if (scopes.length === 0) throw new OAuthError('invalid_scope', 'scope: none of these scopes was granted')
    const used = await store.use('refresh', key)
    if (used?.isFirst !== true || !(await store.extend('grant', record.grant, refreshTokenSeconds))) {
      await tokens.revoke(record.grant)
      throw invalidGrant()
    }
    return this.#issue(record.grant, grant, scopes)
  }

  async #issue(grantId: string, grant: Grant, scopes: readonly Scope[]): Promise<HttpResponse> {
    const { store, tokens, accessTokenSeconds, refreshTokenSeconds } = this.#parts
    const { clientId, subject, username, resource } = grant
    const refreshToken = secretText()
    await store.insert('refresh', hashOf(refreshToken), { grant: grantId }, refreshTokenSeconds)
    return plainJson(200, {
      access_token: await tokens.issue({ subject, username, clientId, scopes, resource, grant: grantId }),
      token_type: 'Bearer',
      expires_in: accessTokenSeconds,
      refresh_token: refreshToken,
      scope: scopes.join(' '),
    })
  }

  async #ownToken(fields: Fields): Promise<HttpResponse> {
    const { tokens, resources, accessTokenSeconds } = this.#parts
    const { clientId, ownScopes, secretHash } = await this.#client(fields)
    if (secretHash === undefined || ownScopes.length === 0)
      throw new OAuthError('unauthorized_client', 'this client cannot get a token without a user')
    const requested = fields.get('scope')
    const scopes = requested === undefined ? ownScopes : scopesOf(requested).filter(scope => ownScopes.includes(scope))
    if (scopes.length === 0) throw new OAuthError('invalid_scope', 'scope: this client has none of these scopes')
    const resource = resourceOf(fields.get('resource'), resources)
    const token = { subject: clientId, username: undefined, clientId, scopes, resource, grant: undefined }
    return plainJson(200, {
      access_token: await tokens.issue(token),
      token_type: 'Bearer',
      expires_in: accessTokenSeconds,
      scope: scopes.join(' '),
    })
  }
}
