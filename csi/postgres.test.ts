/** A snapshot of a database under load equals its state after a power failure: the database recovers completely. */
import { spawnSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { InstanceConfiguration } from '../instance/configuration.ts'
import { createAuthority, issueClientCertificate, issueServerCertificate } from '../operator/pki/index.ts'
import { operatorCommonName, renderConfiguration, superuser } from '../operator/postgres/configuration.ts'
import { giveToPostgres, postgresEnvironment } from '../operator/postgres/testing/install.ts'
import { makeMounts, prepareCommand, runPostgres } from '../operator/postgres/testing/postgres.ts'
import { smallShape } from '../operator/testing/samples.ts'
import { parseMounts } from '../server/mounts.ts'
import { mountImage, unmount } from './mounts.ts'
import { openPool, type Pool } from './pool.ts'
import { mountPoolFile } from './pool-file.ts'

const able = process.getuid?.() === 0 && existsSync('/dev/loop-control') && spawnSync('mkfs.xfs', ['-V']).status === 0
const major = '17'
const writers = 6
const rounds = 3

describe.runIf(able)('a snapshot of a database under load', () => {
  let directory: string
  let pool: Pool
  const authority = createAuthority()
  const configuration: InstanceConfiguration = {
    databaseId: '00000000-0000-4000-8000-000000000001',
    incarnation: 1,
    pgVersion: major,
    initialise: true,
    files: renderConfiguration(smallShape, major, '00000000-0000-4000-8000-000000000001'),
  }
  const mounts = makeMounts(
    configuration,
    authority,
    issueServerCertificate(authority, { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] }),
  )

  beforeAll(async () => {
    // A directory that the Postgres user can enter.
    directory = mkdtempSync(join(mounts.root, 'csi-'))
    spawnSync('chmod', ['711', directory])
    const poolDirectory = join(directory, 'pool')
    await mountPoolFile(join(directory, 'pool.xfs'), 8 * 2 ** 30, poolDirectory)
    pool = await openPool({ directory: poolDirectory, overcommit: 1, now: Date.now })
  })
  afterAll(() => {
    for (const mount of parseMounts(readFileSync('/proc/self/mountinfo', 'utf8')).reverse()) {
      if (mount.path.startsWith(`${directory}/`)) spawnSync('umount', ['--lazy', mount.path])
    }
    rmSync(mounts.root, { recursive: true, force: true })
  })

  const serve = async (volume: { id: string }, name: string) => {
    const path = join(directory, name)
    mkdirSync(path)
    await mountImage(pool.imageOf(volume), path)
    giveToPostgres(path)
    return { ...mounts, volume: path }
  }
  const connect = async (port: number): Promise<Client> => {
    const certificate = issueClientCertificate(authority, { commonName: operatorCommonName })
    const ssl = { ...certificate, ca: authority.cert, servername: 'localhost' }
    const client = new Client({ host: '127.0.0.1', port, user: superuser, database: 'postgres', ssl })
    client.on('error', () => {})
    await client.connect()
    return client
  }

  test('recovers, with every commit acknowledged before the snapshot', async () => {
    const original = await pool.createVolume('source', 2 ** 30, 0)
    const source = await serve(original, 'source')
    const [command, ...args] = prepareCommand(source)
    expect(spawnSync(command, args, { ...postgresEnvironment(major), encoding: 'utf8' })).toMatchObject({ status: 0 })
    const server = await runPostgres(source, { major, settings: { fsync: 'on' } })
    const setup = await connect(server.port)
    await setup.query('CREATE TABLE account AS SELECT n, 1000 AS balance FROM generate_series(1, 100) n')
    await setup.query('CREATE TABLE written (n bigint)')

    let acknowledged = 0
    let isLoaded = true
    const load = Array.from({ length: writers }, async () => {
      const client = await connect(server.port)
      while (isLoaded) {
        const [from, to] = [randomInt(1, 101), randomInt(1, 101)].sort((left, right) => left - right)
        await client.query(`BEGIN; UPDATE account SET balance = balance - 1 WHERE n = ${from};
          UPDATE account SET balance = balance + 1 WHERE n = ${to}; INSERT INTO written VALUES (1); COMMIT`)
        acknowledged++
      }
      await client.end()
    })

    for (let round = 1; round <= rounds; round++) {
      while (acknowledged < round * 50) await new Promise(resolve => setTimeout(resolve, 10))
      const before = acknowledged
      const snapshot = await pool.createSnapshot(`round-${round}`, original.id)
      const copy = await pool.createVolume(`copy-${round}`, 0, 0, { kind: 'snapshot', id: snapshot.id })
      const clone = await serve(copy, `copy-${round}`)
      rmSync(join(clone.volume, 'pgdata/postmaster.pid'), { force: true })
      const recovered = await runPostgres(clone, { major, settings: { fsync: 'on' } })
      const client = await connect(recovered.port)
      const { rows } = await client.query(
        'SELECT (SELECT sum(balance)::int FROM account) AS total, (SELECT count(*)::int FROM written) AS written',
      )
      await client.end()
      await recovered.kill('SIGINT')
      await unmount(clone.volume)
      await pool.deleteVolume(copy.id)
      expect(rows[0].total).toBe(100_000)
      expect(rows[0].written).toBeGreaterThanOrEqual(before)
    }
    isLoaded = false
    await Promise.all(load)
    await setup.end()
    await server.kill('SIGINT')
  }, 120_000)
})
