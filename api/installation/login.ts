/** `/login`: how a client gets a token. The client has no token yet, so it needs none. */
import { z } from 'zod'
import { sendJson } from '../answers.ts'
import type { ApiConfiguration } from '../configuration.ts'
import type { App } from '../context.ts'
import { operation } from '../operation.ts'
import { output } from '../schemas/components.ts'

const oidc = output(
  'OidcLogin',
  z
    .strictObject({
      issuer: z.string().describe('The URL of the issuer, whose discovery document names its endpoints.'),
      client_id: z.string().describe('The public client to use.'),
      scope: z.string().describe('The scopes to request, separated by spaces.'),
      audience: z.string().optional().describe('The value of the parameter `audience`. Absent: do not send one.'),
    })
    .meta({
      description: 'A login at an OpenID provider: authorization code with PKCE, or device authorization (RFC 8628).',
      example: { issuer: 'https://login.example.com', client_id: 'espalier', scope: 'openid' },
    }),
)

const login = output(
  'Login',
  z
    .strictObject({
      token: z.boolean().describe('Whether users can paste a token that they have already.'),
      oidc: oidc.optional(),
    })
    .meta({
      description: 'How to get a token for this API. Absent parts are not configured.',
      example: { token: true },
    }),
)

export function addLogin(app: App, { login: configured, authentication: { issuer } }: ApiConfiguration): void {
  const answer: z.output<typeof login> = {
    token: true,
    ...(configured && {
      oidc: {
        issuer,
        client_id: configured.clientId,
        scope: configured.scope,
        ...(configured.audience !== undefined && { audience: configured.audience }),
      },
    }),
  }
  const text = JSON.stringify(answer)
  const schema = operation(
    {
      operationId: 'getLogin',
      tag: 'service',
      summary: 'Read how to log in',
      description: 'Returns how a client gets a token: the OpenID provider, if one is configured.',
      success: { status: 200, description: 'The ways to log in.', shape: login },
      errors: [400],
      open: true,
    },
    { querystring: z.strictObject({}) },
  )
  app.get('/login', { schema }, async (_request, reply) => sendJson(reply, text))
}
