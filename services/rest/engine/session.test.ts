/**
 * State that one request leaves on a connection must not affect the next request. The tests use a pool with one
 * connection, against a real Postgres.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startPostgres, type TestPostgres } from '../../testing/postgres.ts'
import { jwtSecret, startService, type TestService, tokenOf } from '../testing/service.ts'

const schema = `
  CREATE ROLE authenticator LOGIN NOINHERIT; CREATE ROLE anon; CREATE ROLE other;
  GRANT anon, other TO authenticator;
  CREATE SCHEMA api; GRANT USAGE ON SCHEMA api TO anon, other;
  CREATE FUNCTION api.set(name text, value text) RETURNS text LANGUAGE sql AS $$ SELECT set_config(name, value, false) $$;
  CREATE FUNCTION api.execute(sql text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE sql; END $$;
  CREATE FUNCTION api.session() RETURNS json LANGUAGE sql AS $$ SELECT json_build_object('role', current_user,
    'zone', current_setting('timezone'), 'timeout', current_setting('statement_timeout'), 'own', current_setting('my.own', true)) $$;
  CREATE FUNCTION api.path() RETURNS text LANGUAGE sql AS $$ SELECT current_setting('request.path') $$;
  CREATE TABLE api.notes (owner text); ALTER TABLE api.notes ENABLE ROW LEVEL SECURITY;
  CREATE POLICY own ON api.notes USING (owner = current_user);
  GRANT SELECT ON api.notes TO anon, other; GRANT INSERT, DELETE ON api.notes TO anon; INSERT INTO api.notes VALUES ('anon'), ('other');`

let postgres: TestPostgres
let service: TestService
beforeAll(async () => {
  postgres = await startPostgres('18')
  await postgres.run(schema)
  await postgres.run(`ALTER ROLE authenticator SET timezone TO 'Asia/Tokyo'`)
  service = await startService(postgres.uri('authenticator'), {
    'db-schemas': 'api',
    'db-anon-role': 'anon',
    'db-pool': 1,
    'batch-path': '/batch',
    'jwt-secret': jwtSecret,
  })
})
afterAll(async () => {
  await service?.stop()
  await postgres?.stop()
})

const call = (name: string, body: Record<string, string> = {}) =>
  service.send(`/rpc/${name}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
const clean = { role: 'anon', zone: 'Asia/Tokyo', timeout: '0' }

describe('a request is answered normally after a function', () => {
  test.each([
    ['response.headers', '[{"Set-Cookie": "session=another"}]'],
    ['response.status', '418'],
    ['timezone', 'Europe/Rome'],
    ['statement_timeout', '5000'],
    ['role', 'other'],
    ['my.own', 'secret'],
    ['client_encoding', 'LATIN1'],
    ['search_path', 'pg_temp'],
  ])('set %s for the session', async (name, value) => {
    await call('set', { name, value })
    const answer = await call('session')
    expect(answer.status).toBe(200)
    expect(answer.headers['set-cookie']).toBeUndefined()
    expect(JSON.parse(answer.text)).toEqual({ ...clean, own: name === 'my.own' ? '' : expect.toBeOneOf([null, '']) })
  })

  test('made the session read-only: it can write, also in a batch', async () => {
    const readOnly = { name: 'default_transaction_read_only', value: 'on' }
    await call('set', readOnly)
    expect((await call('execute', { sql: 'CREATE TEMP TABLE made ()' })).status).toBe(204)
    await call('set', readOnly)
    const wanted = { method: 'POST', headers: { prefer: 'max-affected=1, handling=strict' } }
    expect((await service.send('/notes?owner=eq.anon', { ...wanted, method: 'DELETE' })).status).toBe(204)
    await call('set', readOnly)
    const body = JSON.stringify([{ method: 'POST', path: '/notes', body: { owner: 'anon' } }])
    const headers = { 'content-type': 'application/json' }
    expect(await service.send('/batch', { method: 'POST', headers, body })).toMatchObject({ status: 200 })
  })

  test("deallocated the connection's statements", async () => {
    await call('session')
    expect((await call('execute', { sql: 'DEALLOCATE ALL' })).status).toBe(204)
    expect((await call('session')).status).toBe(200)
  })

  test.each(['COMMIT', 'ROLLBACK', 'COPY api.notes TO STDOUT', 'COPY api.notes FROM STDIN'])(
    'tried to %s',
    async sql => {
      expect((await call('execute', { sql })).status).toBeGreaterThanOrEqual(400)
      expect(JSON.parse((await call('session')).text)).toMatchObject(clean)
    },
  )

  test('ran LISTEN and Postgres sends a notification', async () => {
    await call('execute', { sql: `LISTEN noise; NOTIFY noise, 'one'; DO $$ BEGIN RAISE WARNING 'noise'; END $$` })
    await postgres.run(`NOTIFY noise, 'two'`)
    expect(JSON.parse((await call('session')).text)).toMatchObject(clean)
  })
})

test("a role that runs another role's prepared statement reads only its own rows", async () => {
  const authorization = `Bearer ${await tokenOf({ role: 'other' })}`
  for (let round = 0; round < 8; round++) {
    expect(JSON.parse((await service.send('/notes')).text)).toEqual([{ owner: 'anon' }])
    const asOther = await service.send('/notes', { headers: { authorization } })
    expect(JSON.parse(asOther.text)).toEqual([{ owner: 'other' }])
  }
})

test.each(['/rpc/path', '/rpc/p%61th', '/%72pc/path', '/rpc/path?select=*'])(
  'a function reads the same path, however the client encodes it: %s',
  async path => {
    expect((await service.send(path)).text).toBe('"/rpc/path"')
  },
)
