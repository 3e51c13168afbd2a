/** Copies of a real Postgres, sound and damaged, and their reports. */
import { spawnSync } from 'node:child_process'
import { closeSync, cpSync, openSync, readFileSync, readSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { pgVersions } from '../../crds/index.ts'
import { issueClientCertificate } from '../../operator/pki/index.ts'
import { operatorCommonName } from '../../operator/postgres/configuration.ts'
import { withConnection } from '../../operator/postgres/connection.ts'
import { instanceFolder, nodeBinary } from '../../operator/postgres/testing/install.ts'
import {
  postgresEnvironment,
  type RunningPostgres,
  startPostgres,
  temporaryDirectory,
} from '../../operator/postgres/testing/postgres.ts'
import type { VerificationResult } from './result.ts'

/** amcheck's findings are the same in all versions, so all checks run only on the newest version. */
const [newest] = pgVersions.toSorted().reverse()

describe.each(pgVersions)('on Postgres %s', { timeout: 180_000 }, major => {
  let server: RunningPostgres
  let rows: string
  let index: string
  const query = <Row extends object>(sql: string, database = 'app') =>
    withConnection(
      server.target,
      database,
      issueClientCertificate(server.authority, { commonName: operatorCommonName }),
      new AbortController().signal,
      connection => connection.rows<Row>(sql),
    )
  const pathOf = async (relation: string) =>
    (await query<{ path: string }>(`SELECT pg_relation_filepath('${relation}') AS path`))[0]?.path ?? ''

  beforeAll(async () => {
    server = await startPostgres({ major })
    await query('CREATE DATABASE app', 'postgres')
    await query(`CREATE TABLE public.kept AS SELECT n, repeat('x', 200) || n AS text, '{1,2}'::int[] AS list
      FROM generate_series(1, 2000) n`)
    await query('CREATE INDEX kept_n ON public.kept (n)')
    await query('CREATE INDEX kept_list ON public.kept USING gin (list)')
    // Settings that would prevent other sessions from checking this database.
    await query(`ALTER DATABASE app SET default_transaction_read_only = on`)
    await query(`ALTER DATABASE app SET search_path = nowhere`, 'postgres')
    await query(`CREATE DATABASE "it's another"`, 'postgres')
    await query('CREATE DATABASE "-cfsync=on"', 'postgres')
    // A database whose removal was interrupted: it accepts no connections, and is dropped again.
    await query('CREATE DATABASE removed', 'postgres')
    await query("UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'removed'", 'postgres')
    await query("SELECT pg_create_physical_replication_slot('standby', true)", 'postgres')
    await query('CHECKPOINT', 'postgres')
    rows = await pathOf('public.kept')
    index = await pathOf('public.kept_n')
  })
  afterAll(() => server.stop())

  /** A copy of the files on disk while the server runs. The server is small and idle, so the copy equals a snapshot. */
  function copy(damage: (pgdata: string) => void = () => {}): {
    result: VerificationResult
    status: number | null
    stderr: string
  } {
    const root = temporaryDirectory('verify')
    const volume = join(root, 'volume')
    try {
      cpSync(server.mounts.volume, volume, { recursive: true })
      damage(join(volume, 'pgdata'))
      const environment = postgresEnvironment(major)
      spawnSync('chown', ['-R', `${environment.uid ?? process.getuid?.()}`, volume])
      const message = join(volume, 'message')
      const { status, stderr } = spawnSync(
        nodeBinary(),
        [join(instanceFolder(), 'main.ts'), 'instance', 'verify', '--data', volume, '--termination-message', message],
        { ...environment, encoding: 'utf8' },
      )
      return { status, stderr, result: status === 0 ? JSON.parse(readFileSync(message, 'utf8')) : undefined }
    } finally {
      rmSync(root, { recursive: true, force: true })
    }
  }

  function flip(path: string, at: number): void {
    const file = openSync(path, 'r+')
    const byte = Buffer.alloc(1)
    readSync(file, byte, 0, 1, at)
    writeSync(file, Buffer.from([(byte[0] ?? 0) ^ 0x10]), 0, 1, at)
    closeSync(file)
  }

  test('a sound copy is reported as sound', () => {
    const { result, stderr } = copy()
    expect(stderr).toBe('')
    expect(result).toMatchObject({ faults: 0, findings: [] })
    expect(result.version).toMatch(new RegExp(`^${major}\\.`))
    // The databases are template1, postgres, app and two others.
    expect(result.databases).toBe(5)
    expect(result.relations).toBeGreaterThan(5 * 60)
    expect(result.indexes).toBeGreaterThan(5 * 100)
    expect(result.pages).toBeGreaterThan(5 * 800)
  })

  if (major !== newest) return

  test('a flipped bit in a table is found, by the checksum and by reading the table', () => {
    const { result } = copy(data => flip(join(data, rows), 8192 + 4000))
    expect(result.faults).toBeGreaterThan(1)
    expect(result.findings.join('\n')).toMatch(/public\.kept: invalid page in block 1 of relation/)
    expect(result.findings.join('\n')).toMatch(new RegExp(`page 1 of ${rows} does not match its checksum`))
  })

  test('an index that lacks rows is found, although every page of it is intact', async () => {
    const before = temporaryDirectory('index')
    cpSync(join(server.mounts.volume, 'pgdata', index), join(before, 'index'))
    await query('SET default_transaction_read_only = off; INSERT INTO public.kept (n) VALUES (-1)')
    await query('CHECKPOINT', 'postgres')
    const { result } = copy(data => cpSync(join(before, 'index'), join(data, index)))
    rmSync(before, { recursive: true })
    expect(result.findings.join('\n')).toMatch(/^public\.kept_n: heap tuple .* lacks matching index tuple/)
    expect(result.faults).toBe(1)
  })

  test('a copy that does not recover is reported, and a copy without data is refused', () => {
    const broken = copy(data => rmSync(join(data, 'pg_wal'), { recursive: true }))
    expect(broken.result.findings).toEqual([expect.stringMatching(/^Postgres does not recover: .*pg_wal/)])
    const empty = copy(data => rmSync(join(data, 'global', 'pg_control')))
    expect(empty).toMatchObject({ status: 23, stderr: expect.stringMatching(/data-lost/) })
  })
})
