/**
 * Measures how bodies of 10 MB affect one worker of the REST service: how long another connection waits meanwhile, and
 * how much the worker's memory grows. A separate process sends each body. This process sends two small requests
 * continuously: Postgres is needed for one of them, and the worker alone responds to the other. Each round also sends
 * the same request with an empty body. The ratio is the cost of the body for other clients.
 *
 * Arguments select kinds by parts of their names. `--at-once=8` sends each body 8 times at once, and `--rounds=3` sets
 * the number of rounds.
 */
import { rmSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { temporaryDirectory } from '../operator/postgres/testing/postgres.ts'
import type { Server } from '../services/rest/testing/programs.ts'
import { startPostgres } from '../services/testing/postgres.ts'
import { forgetPeak, memoryMiB } from './processes.ts'
import { kinds } from './rest-bodies-kinds.ts'
import { BodyReader } from './rest-bodies-reader.ts'
import { type Sender, startSender } from './rest-bodies-sender.ts'
import { requestText } from './rest-load.ts'
import { commonSettings, startService } from './rest-servers.ts'
import { median, percentile } from './statistics.ts'

const {
  values: { 'at-once': atOnce, rounds },
  positionals,
} = parseArgs({
  allowPositionals: true,
  options: { 'at-once': { type: 'string', default: '1' }, rounds: { type: 'string', default: '3' } },
})
const wanted = kinds.filter(({ name }) => positionals.length === 0 || positionals.some(part => name.includes(part)))

const schema = `
  CREATE ROLE authenticator LOGIN NOINHERIT; CREATE ROLE anonymous; GRANT anonymous TO authenticator;
  ALTER ROLE anonymous SET statement_timeout TO '2s';
  CREATE TABLE items (id int PRIMARY KEY); INSERT INTO items SELECT generate_series(1, 1000);
  CREATE TABLE locked (a text, b text);
  CREATE TABLE open (a text, b text);
  CREATE FUNCTION locked_json(json) RETURNS int LANGUAGE sql AS 'SELECT 1';
  CREATE FUNCTION open_json(json) RETURNS int LANGUAGE sql AS 'SELECT 1';
  CREATE FUNCTION open_text(text) RETURNS int LANGUAGE sql AS 'SELECT length($1)';
  CREATE FUNCTION open_bytes(bytea) RETURNS int LANGUAGE sql AS 'SELECT length($1)';
  CREATE FUNCTION open_words(VARIADIC a text[]) RETURNS int LANGUAGE sql AS 'SELECT 1';
  REVOKE EXECUTE ON FUNCTION locked_json FROM PUBLIC;
  GRANT SELECT ON items TO anonymous; GRANT SELECT, INSERT, UPDATE ON open TO anonymous;`

const inDatabase = requestText('/items?id=eq.7')
const inWorker = requestText('/nowhere')

type Round = { readonly database: number; readonly worker: number; readonly seconds: number; readonly statuses: string }

/**
 * Returns the slowest response to each small request, during the large request and shortly after it, because its later
 * effects count too.
 */
async function round(server: Server, sender: Sender, kind: string, withBody: boolean): Promise<Round> {
  const readers = [new BodyReader(server.port, inDatabase), new BodyReader(server.port, inWorker)] as const
  await Promise.all(readers.map(reader => reader.begin()))
  const { seconds, statuses } = await sender.send({ port: server.port, kind, withBody, times: Number(atOnce) })
  await pause(200)
  const [database, worker] = await Promise.all(readers.map(reader => reader.end()))
  return { database: percentile(database ?? [], 1), worker: percentile(worker ?? [], 1), seconds, statuses }
}

async function measure(server: Server, sender: Sender, kind: string): Promise<void> {
  const found: { without: Round; with: Round; growth: number }[] = []
  for (let number = 0; number < Number(rounds); number++) {
    const without = await round(server, sender, kind, false)
    const before = memoryMiB(server.pid, 'now')
    forgetPeak(server.pid)
    const withBody = await round(server, sender, kind, true)
    found.push({ without, with: withBody, growth: memoryMiB(server.pid, 'peak') - before })
  }
  const of = (pick: (one: (typeof found)[number]) => number, digits = 0) => {
    const values = found.map(pick)
    return `${median(values).toFixed(digits)} (${percentile(values, 1).toFixed(digits)})`
  }
  const cells = [
    kind,
    `${found[0]?.without.statuses} / ${found[0]?.with.statuses}`,
    of(one => one.with.seconds * 1_000),
    of(one => one.with.worker),
    of(one => one.with.worker / one.without.worker, 1),
    of(one => one.with.database),
    of(one => one.with.database / one.without.database, 1),
    of(one => one.growth),
  ]
  console.log(`| ${cells.join(' | ')} |`)
}

async function main(): Promise<void> {
  const directory = temporaryDirectory('bench-rest-bodies')
  const sender = startSender()
  const postgres = await startPostgres('17')
  const settings = { ...commonSettings(postgres.uri('authenticator'), 10), 'jwt-secret': 'x'.repeat(32) }
  try {
    await postgres.run(schema)
    const heads = [
      'body',
      'status without, with',
      'ms to the answer',
      'slowest in the worker, ms',
      'ratio',
      'slowest with Postgres, ms',
      'ratio',
      'growth, MiB',
    ]
    console.log(
      `median (highest) of ${rounds} rounds, ${atOnce} at once\n| ${heads.join(' | ')} |\n|${heads.map(() => '---|').join('')}`,
    )
    // Each kind has a new worker. In the same worker, memory of the previous kind would hide the memory of this kind.
    for (const { name } of wanted) {
      const server = await startService(directory, 1, settings)
      try {
        await round(server, sender, name, false)
        await measure(server, sender, name)
      } finally {
        await server.stop()
      }
    }
  } finally {
    sender.stop()
    await postgres.stop()
    rmSync(directory, { recursive: true, force: true })
  }
}

await main()
