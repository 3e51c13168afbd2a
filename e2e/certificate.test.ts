/** The gateway's own certificate in an embedded installation. It follows the authority without closing sessions. */
import { once } from 'node:events'
import { connect as connectTls } from 'node:tls'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { systemNamespace } from '../crds/index.ts'
import { type Installation, startInstallation } from '../embedded/installation.ts'
import { readSettings } from '../embedded/settings.ts'
import { mintToken } from '../embedded/tokens.ts'
import { stateDraft } from '../operator/authority/state.ts'
import { authorityOf } from '../operator/keys.ts'
import { type Authority, createAuthority } from '../operator/pki/index.ts'
import { authoritySecret, authorityStateSecret } from '../sealing/credentials.ts'
import { type Connection, connect, createApiClient, eventually } from './client.ts'
import { createHome, type Home } from './process.ts'

let home: Home
let installation: Installation
let connection: Connection

beforeAll(async () => {
  home = await createHome(2)
  installation = await startInstallation(readSettings(home.environment), pino({ level: 'silent' }))
  const token = await mintToken(home.path, { tenant: 'demo', subject: 'test', expiresIn: 3600, claims: {} })
  const api = createApiClient(installation.api, token)
  const { body } = await api.create({ name: 'shop', ip_allowlist: { rules: [{ cidr: '127.0.0.1/32' }] } })
  connection = await api.connection(body.id)
})
afterAll(async () => {
  await installation?.stop()
  await home?.remove()
})

/** Whether a refused client that trusts only this authority can verify the gateway. */
async function isTrusted({ cert }: Authority): Promise<boolean> {
  const { host, port } = connection
  const options = { host, port, localAddress: '127.0.0.2', ca: cert, servername: 'localhost' }
  const socket = connectTls({ ...options, ALPNProtocols: ['postgresql'], rejectUnauthorized: false })
  try {
    await once(socket, 'secureConnect')
    return socket.authorized
  } finally {
    socket.destroy()
  }
}

test('clients can verify a database by the name localhost and by its address', async () => {
  const authority = authorityOf(
    await installation.store.connect('test').get('Secret', { namespace: systemNamespace, name: authoritySecret }),
  )
  for (const host of ['localhost', connection.host]) {
    const client = await connect({ ...connection, host }, { ssl: { ca: authority?.cert } })
    expect((await client.query('SELECT 1 AS one')).rows, host).toEqual([{ one: 1 }])
    await client.end()
  }
})

test('after a change of the authority, refused clients get its certificate at once, and open sessions continue', async () => {
  const cluster = installation.store.connect('test')
  const secret = (name: string) => cluster.get('Secret', { namespace: systemNamespace, name })
  const before = authorityOf(await secret(authoritySecret))
  const state = await secret(authorityStateSecret)
  if (before === undefined || state === undefined) throw new Error('there is no authority')
  const session = await connect(connection)
  expect(await isTrusted(before)).toBe(true)
  const next = createAuthority()
  const authorities = [
    { ...next, use: 'signs' as const },
    { ...before, use: 'trusted' as const },
  ]
  const draft = stateDraft({ authorities, changedAt: new Date().toISOString() }, 'the new authority signs')
  await cluster.replace('Secret', { ...state, data: draft.data })
  await eventually('a certificate of the new authority is served', () => isTrusted(next), 10_000)
  expect(await isTrusted(before)).toBe(false)
  expect((await session.query('select 1 as one')).rows).toEqual([{ one: 1 }])
  await session.end()
})
