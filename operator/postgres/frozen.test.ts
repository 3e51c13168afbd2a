/**
 * An operator freezes at any point of its work in a Postgres, and continues after another operator has taken over. The
 * second operator's changes must remain. A proxy holds the first operator's messages.
 */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import pino from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { issueClientCertificate } from '../pki/index.ts'
import { spread } from '../testing/soak.ts'
import { createAdministrator, type DesiredRoles } from './administrator.ts'
import { operatorCommonName } from './configuration.ts'
import { withConnection } from './connection.ts'
import { connectAs, type RunningPostgres, startPostgres } from './testing/postgres.ts'

const signal = new AbortController().signal
const logger = pino({ level: 'silent' })

/** Forwards this many chunks to Postgres, over all connections. Holds the others until `unfreeze`. */
async function freezingAfter(pieces: number, port: number) {
  let passed = 0
  const blocked: (() => void)[] = []
  const frozen = Promise.withResolvers<void>()
  let isThawed = false
  const sockets: Socket[] = []
  const server = createServer(client => {
    const postgres = connect(port, '127.0.0.1')
    sockets.push(client, postgres)
    for (const socket of [client, postgres]) socket.on('error', () => {})
    client.on('data', data => {
      if (isThawed || passed < pieces) {
        passed += 1
        postgres.write(data)
        return
      }
      blocked.push(() => postgres.write(data))
      frozen.resolve()
    })
    postgres.on('data', data => void client.write(data))
    client.on('end', () => (blocked.length > 0 && !isThawed ? blocked.push(() => postgres.end()) : postgres.end()))
    postgres.on('close', () => client.destroy())
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    frozen: frozen.promise,
    unfreeze: () => {
      isThawed = true
      for (const send of blocked.splice(0)) send()
    },
    close: () => {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

let server: RunningPostgres
beforeAll(async () => {
  server = await startPostgres({ major: '18' })
})
afterAll(() => server?.stop())

const administratorOf = () => createAdministrator({ authority: server.authority, now: Date.now, logger })
const superuser = (sql: string, database = 'app') => {
  const certificate = issueClientCertificate(server.authority, { commonName: operatorCommonName })
  return withConnection(server.target, database, certificate, signal, connection => connection.rows(sql))
}
const passwordsOf = (which: string) => ({
  admin: `admin-${which}`,
  app: `app-${which}`,
  app_read_only: `reader-${which}`,
})
const isShown = "SELECT has_table_privilege('app_read_only', 'public.shown', 'SELECT') AS shown"

describe('an operator that is frozen while it corrects the roles', () => {
  /** The number of chunks that the first operator sends: connections, the lock, roles, grants, tools. */
  const mostPieces = 20
  let reached = 0

  beforeAll(async () => {
    const first = { passwords: passwordsOf('first'), passwordVersion: 'first' }
    await administratorOf().ensureRoles(server.target, async () => first, signal)
    const app = await connectAs(server, 'app', first.passwords.app)
    await app.query('CREATE TABLE shown ()')
    await app.end()
  })

  /** Nothing is done yet. The second operator does all of it, after the password was replaced. */
  async function overtaken(pieces: number, endsSession: boolean): Promise<void> {
    await superuser('COMMENT ON ROLE app_read_only IS NULL; GRANT SELECT ON public.shown TO app_read_only')
    let secret: DesiredRoles = { passwords: passwordsOf(`old-${pieces}`), passwordVersion: `old-${pieces}` }
    const desired = async () => secret
    const proxy = await freezingAfter(pieces, server.target.port)
    const target = { ...server.target, host: '127.0.0.1', port: proxy.port }
    let isOver = false
    const first = administratorOf()
      .ensureRoles(target, desired, signal)
      .catch(() => {})
      .finally(() => {
        isOver = true
      })
    await Promise.race([proxy.frozen, first])
    if (!isOver) reached = Math.max(reached, pieces)
    secret = { passwords: passwordsOf(`new-${pieces}`), passwordVersion: `new-${pieces}` }
    const second = () => administratorOf().ensureRoles(server.target, desired, signal)
    // Ends the session, as Postgres does with a session that is idle for long.
    const ended =
      "SELECT count(pg_terminate_backend(pid, 5000))::int AS count FROM pg_locks WHERE locktype = 'advisory'"
    if (endsSession) await superuser(ended, 'template1')
    const isSecondDone = await second().then(
      () => true,
      () => false,
    )
    if (endsSession) expect(isSecondDone).toBe(true)
    if (isSecondDone) await superuser('REVOKE SELECT ON public.shown FROM app_read_only')
    proxy.unfreeze()
    await first
    if (!isSecondDone) await second()
    proxy.close()
    const seen = await administratorOf().observe(server.target, { passwords: secret.passwords, commits: false }, signal)
    const role = (name: keyof DesiredRoles['passwords']) => (seen.reachable ? seen.roles[name] : undefined)
    for (const name of ['admin', 'app', 'app_read_only'] as const)
      expect([pieces, role(name)]).toEqual([
        pieces,
        { exists: true, password: 'ours', passwordVersion: secret.passwordVersion },
      ])
    expect(seen).toMatchObject({ privilegesInOrder: true, platformInOrder: true })
    if (isSecondDone) expect([pieces, ...(await superuser(isShown))]).toEqual([pieces, { shown: false }])
  }

  const moments = Array.from({ length: mostPieces }, (_, index) => index)
  test('does not set a replaced password, and does not repeat a revoked grant', async () => {
    for (const pieces of spread(moments, 2)) await overtaken(pieces, true)
    for (const pieces of spread(moments, 20, 9)) await overtaken(pieces, false)
    // The first operator was also frozen at its last steps.
    expect(reached).toBeGreaterThan(13)
  }, 120_000)
})

describe('an operator that was frozen while it opened a copy', () => {
  test('drops nothing that users created meanwhile, and does not open a copy whose roles are not corrected', async () => {
    await superuser("SELECT pg_create_physical_replication_slot('theirs')")
    await superuser("CREATE SUBSCRIPTION theirs CONNECTION 'dbname=none' PUBLICATION p WITH (connect = false)")
    await expect(administratorOf().dropInherited(server.target, signal)).rejects.toThrow('opened meanwhile')
    expect(await superuser('SELECT slot_name FROM pg_replication_slots')).toEqual([{ slot_name: 'theirs' }])
    expect(await superuser('SELECT subname FROM pg_subscription')).toEqual([{ subname: 'theirs' }])
  })
})
