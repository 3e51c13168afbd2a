/**
 * The service retries after serialization failures and deadlocks, up to a limit. The client gets the error only if the
 * retries fail. Against a real Postgres.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startPostgres, type TestPostgres } from '../../testing/postgres.ts'
import { startService, type TestService } from '../testing/service.ts'
import { retryPauseMs } from './retry.ts'

const schema = `
  CREATE ROLE authenticator LOGIN NOINHERIT; CREATE ROLE anon; GRANT anon TO authenticator;
  CREATE SCHEMA api; GRANT USAGE ON SCHEMA api TO anon;
  CREATE TABLE api.accounts (id int PRIMARY KEY, amount int); INSERT INTO api.accounts VALUES (1, 0), (2, 0);
  CREATE SEQUENCE api.calls;
  CREATE FUNCTION api.move(source int, target int, seconds float) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
    UPDATE api.accounts SET amount = amount - 1 WHERE id = source; PERFORM pg_sleep(seconds);
    UPDATE api.accounts SET amount = amount + 1 WHERE id = target; RETURN nextval('api.calls'); END $$;
  CREATE FUNCTION api.fail(state text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
    PERFORM nextval('api.calls'); RAISE EXCEPTION 'no' USING ERRCODE = state; END $$;
  GRANT ALL ON ALL TABLES IN SCHEMA api TO anon; GRANT ALL ON ALL SEQUENCES IN SCHEMA api TO anon;`

let postgres: TestPostgres
let service: TestService
beforeAll(async () => {
  postgres = await startPostgres('18')
  await postgres.run(schema)
  await postgres.run(`ALTER SYSTEM SET deadlock_timeout TO '50ms'`)
  await postgres.run('SELECT pg_reload_conf()')
  service = await startService(postgres.uri('authenticator'), { 'db-schemas': 'api', 'db-anon-role': 'anon' })
})
afterAll(async () => {
  await service?.stop()
  await postgres?.stop()
})

const call = (name: string, body: unknown) =>
  service.send(`/rpc/${name}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
const count = async (sql: string): Promise<number> => Number((await postgres.run(`SELECT ${sql} AS n`)).rows[0]?.n)
/** How often the function has been called. A rollback does not reset the count. */
async function callsOf(state: string): Promise<number> {
  await postgres.run(`SELECT setval('api.calls', 1)`)
  await call('fail', { state })
  return (await count(`nextval('api.calls')`)) - 2
}

describe('a request', () => {
  test('that deadlocks with another request succeeds, and is applied once', async () => {
    const answers = await Promise.all([
      call('move', { source: 1, target: 2, seconds: 0.3 }),
      call('move', { source: 2, target: 1, seconds: 0.3 }),
    ])
    expect(answers.map(({ status }) => status)).toEqual([200, 200])
    expect(await count('(SELECT count(*) FROM api.accounts WHERE amount <> 0)')).toBe(0)
  })

  test.each(['40001', '40P01', '26000'])('that fails with %s repeatedly runs four times', async state => {
    expect(await callsOf(state)).toBe(4)
  })

  test('that fails with another error is not retried', async () => {
    expect(await callsOf('40002')).toBe(1)
  })
})

test('delays grow and are random', () => {
  expect([1, 2, 3].map(failures => retryPauseMs(failures, 0.5))).toEqual([10, 20, 40])
  expect(retryPauseMs(1, 0)).toBeLessThan(retryPauseMs(1, 0.9))
})
