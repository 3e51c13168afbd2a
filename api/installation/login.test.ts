/** `/login`: what the API tells a client without a token. */
import { expect, test } from 'vitest'
import { apiConfiguration } from '../configuration.ts'
import { startClient } from '../testing/client.ts'
import { configurationOf, secret } from '../testing/harness.ts'

const authentication = { sharedSecret: secret, issuer: 'https://login.example.com', audience: 'espalier' }

async function answerOf(configuration = configurationOf()) {
  const client = await startClient({ configuration })
  try {
    return await client.call('GET', '/login', { token: null })
  } finally {
    await client.close()
  }
}

test('without a provider, a pasted token is the only way to log in', async () => {
  expect(await answerOf()).toMatchObject({ status: 200, body: { token: true } })
})

test('names the configured provider, and no secret', async () => {
  const { status, body } = await answerOf(configurationOf({ authentication, login: { clientId: 'console' } }))
  expect({ status, body }).toEqual({
    status: 200,
    body: { token: true, oidc: { issuer: 'https://login.example.com', client_id: 'console', scope: 'openid' } },
  })
})

test('has the audience, if the issuer needs it', async () => {
  const login = { clientId: 'console', scope: 'openid email', audience: 'https://api.example.com' }
  const { body } = await answerOf(configurationOf({ authentication, login }))
  expect(body.oidc).toMatchObject({ scope: 'openid email', audience: 'https://api.example.com' })
})

test.each(['espalier', 'http://login.example.com', 'ftp://login.example.com'])('refuses the issuer %s', issuer => {
  const login = { clientId: 'console' }
  expect(apiConfiguration.safeParse({ authentication: { ...authentication, issuer } }).success).toBe(true)
  const { error } = apiConfiguration.safeParse({ authentication: { ...authentication, issuer }, login })
  expect(error?.issues).toMatchObject([
    { path: ['authentication', 'issuer'], message: expect.stringContaining('https') },
  ])
})

test('an issuer of this machine may use http', () => {
  const issuer = 'http://127.0.0.1:9000'
  expect(() =>
    apiConfiguration.parse({ authentication: { ...authentication, issuer }, login: { clientId: 'x' } }),
  ).not.toThrow()
})
