/** Metadata documents of the authorization server (RFC 8414) and of the protected resource (RFC 9728). */
import { scopes } from '../../mcp-protocol/scopes.ts'

type DiscoverySettings = {
  readonly issuer: string
  readonly resources: readonly string[]
  readonly allowDynamicRegistration: boolean
  readonly allowClientIdMetadata: boolean
  readonly clients: readonly { readonly ownScopes: readonly string[] }[]
}

const authorizationServer = '/.well-known/oauth-authorization-server'
const openIdConfiguration = '/.well-known/openid-configuration'
const protectedResource = '/.well-known/oauth-protected-resource'

function metadata(settings: DiscoverySettings): { readonly [field: string]: unknown } {
  const { issuer, allowDynamicRegistration, allowClientIdMetadata, clients } = settings
  const hasOwnTokens = clients.some(({ ownScopes }) => ownScopes.length > 0)
  return {
    issuer,
    authorization_endpoint: `${issuer}/oauth/authorize`,
    token_endpoint: `${issuer}/oauth/token`,
    jwks_uri: `${issuer}/oauth/jwks`,
    ...(allowDynamicRegistration && { registration_endpoint: `${issuer}/register` }),
    scopes_supported: scopes,
    response_types_supported: ['code'],
    response_modes_supported: ['query'],
    grant_types_supported: ['authorization_code', 'refresh_token', ...(hasOwnTokens ? ['client_credentials'] : [])],
    token_endpoint_auth_methods_supported: ['none', 'client_secret_post'],
    code_challenge_methods_supported: ['S256'],
    authorization_response_iss_parameter_supported: true,
    client_id_metadata_document_supported: allowClientIdMetadata,
  }
}

/** The well-known path precedes the resource's own path. */
const resourceMetadata = (resource: string, issuer: string) => ({
  resource,
  authorization_servers: [issuer],
  scopes_supported: scopes,
  bearer_methods_supported: ['header'],
})

/** The URL of a resource's metadata. */
export function resourceMetadataUrl(resource: string): string {
  const { origin, pathname } = new URL(resource)
  return `${origin}${protectedResource}${pathname === '/' ? '' : pathname}`
}

/** Documents by path. The same document is at every path that clients try. */
export function wellKnownDocuments(settings: DiscoverySettings): ReadonlyMap<string, string> {
  const { issuer, resources } = settings
  const own = JSON.stringify(metadata(settings))
  const path = new URL(issuer).pathname.replace(/\/$/, '')
  const documents = new Map([
    [`${authorizationServer}${path}`, own],
    [`${openIdConfiguration}${path}`, own],
    [`${path}${openIdConfiguration}`, own],
    [authorizationServer, own],
    [openIdConfiguration, own],
    // Older clients append the endpoint's path to the server's path.
    [`${authorizationServer}/mcp`, own],
    [`${openIdConfiguration}/mcp`, own],
  ])
  for (const resource of resources) {
    const document = JSON.stringify(resourceMetadata(resource, issuer))
    documents.set(new URL(resourceMetadataUrl(resource)).pathname, document)
    if (!documents.has(protectedResource)) documents.set(protectedResource, document)
  }
  return documents
}
