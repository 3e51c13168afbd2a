/**
 * Measures the creation of a database, from the accepted request to `available`. The baseline is initdb and a start of
 * the same Postgres without Espalier, until it answers a client. Rounds alternate between the two, and the result
 * compares the medians.
 */
import { type SpawnOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { type PgVersion, pgVersions } from '../crds/index.ts'
import { startEmbedded } from '../e2e/providers/embedded.ts'
import { findFreeRange } from '../embedded/ports.ts'
import {
  giveToPostgres,
  postgresBinaries,
  postgresEnvironment,
  temporaryDirectory,
} from '../operator/postgres/testing/postgres.ts'
import { against, median, print } from './statistics.ts'

const rounds = 7

/** Runs initdb with Espalier's options, and starts the server. @returns the ms until it answers a client */
async function byHand(major: PgVersion): Promise<number> {
  const root = temporaryDirectory('by-hand')
  const data = join(root, 'data')
  mkdirSync(data, { mode: 0o700 })
  giveToPostgres(data)
  const port = (await findFreeRange('127.0.0.1', 1)).first
  const bin = join(postgresBinaries(major), 'bin')
  const options: SpawnOptions = { ...postgresEnvironment(major), stdio: 'ignore' }
  const locale = major === '16' ? ['--locale=C.UTF-8'] : ['--locale-provider=builtin', '--builtin-locale=C.UTF-8']

  const start = performance.now()
  const initdb = spawn(
    join(bin, 'initdb'),
    ['-D', data, '-U', 'postgres', '-A', 'trust', '-k', '-E', 'UTF8', ...locale],
    options,
  )
  const [code] = await once(initdb, 'exit')
  if (code !== 0) throw new Error(`initdb ended with ${code}`)
  const settings = ['listen_addresses=127.0.0.1', 'unix_socket_directories=']
  const server = spawn(
    join(bin, 'postgres'),
    ['-D', data, '-p', `${port}`, ...settings.flatMap(s => ['-c', s])],
    options,
  )
  for (;;) {
    const client = new pg.Client({ host: '127.0.0.1', port, user: 'postgres', database: 'postgres' })
    client.on('error', () => {})
    try {
      await client.connect()
      await client.query('SELECT 1')
      await client.end()
      break
    } catch {
      await new Promise(resolve => setTimeout(resolve, 5))
    }
  }
  const elapsed = performance.now() - start
  const exited = once(server, 'exit')
  server.kill('SIGINT')
  await exited
  await rm(root, { recursive: true, force: true })
  return elapsed
}

const provider = await startEmbedded()
const api = await provider.client()
try {
  for (const major of pgVersions) {
    const hand: number[] = []
    const ours: number[] = []
    // The first round of each does not count: it fills the file system's caches.
    for (let round = -1; round < rounds; round++) {
      const elapsed = await byHand(major)
      const accepted = await api.create({ name: `bench${round + 1}`, pg_version: major }, {})
      const start = performance.now()
      const { body } = await api.call('GET', `/databases/${accepted.body.id}`, undefined, { prefer: 'wait=60' })
      const ready = performance.now() - start
      if (body.status !== 'available') throw new Error(`the database is ${body.status}`)
      await api.remove(accepted.body.id)
      if (round < 0) continue
      hand.push(elapsed)
      ours.push(ready)
    }
    print(
      `create: from the request to available, Postgres ${major}`,
      `${against(median(ours) / median(hand), 1.5, 'at most', ' times')} by hand (${median(ours).toFixed(0)} ms against ${median(hand).toFixed(0)} ms)`,
    )
  }
} finally {
  await provider.stop()
}
