/** Copies of a real Postgres, sound and damaged, and what is said of them. */
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

/** What amcheck finds is the same in all versions; the newest is asked all. */
const [newest] = pgVersions.toSorted().reverse()

describe.each(pgVersions)('on Postgres %s', { timeout: 180_000 }, major => {
  let server: RunningPostgres
  let rows: string
  let index: string
  const ask = <Row extends object>(sql: string, database = 'app') =>
    withConnection(
      server.target,
      database,
      issueClientCertificate(server.authority, { commonName: operatorCommonName }),
      new AbortController().signal,
      connection => connection.rows<Row>(sql),
    )
  const pathOf = async (relation: string) =>
    (await ask<{ path: string }>(`SELECT pg_relation_filepath('${relation}') AS path`))[0]?.path ?? ''

  beforeAll(async () => {
    server = await startPostgres({ major })
    await ask('CREATE DATABASE app', 'postgres')
    await ask(`CREATE TABLE public.kept AS SELECT n, repeat('x', 200) || n AS text, '{1,2}'::int[] AS list
      FROM generate_series(1, 2000) n`)
    await ask('CREATE INDEX kept_n ON public.kept (n)')
    await ask('CREATE INDEX kept_list ON public.kept USING gin (list)')
    // What would keep others from checking it.
    await ask(`ALTER DATABASE app SET default_transaction_read_only = on`)
    await ask(`ALTER DATABASE app SET search_path = nowhere`, 'postgres')
    await ask(`CREATE DATABASE "it's another"`, 'postgres')
    await ask('CREATE DATABASE "-cfsync=on"', 'postgres')
    // As one whose removal was interrupted: nobody can enter it, and it is dropped again.
    await ask('CREATE DATABASE removed', 'postgres')
    await ask("UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'removed'", 'postgres')
    await ask("SELECT pg_create_physical_replication_slot('standby', true)", 'postgres')
    await ask('CHECKPOINT', 'postgres')
    rows = await pathOf('public.kept')
    index = await pathOf('public.kept_n')
  })
  afterAll(() => server.stop())

  /** A copy of what stands on the disk, while the server runs: small and at rest as it is, that is what a snapshot would have. */
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

  test('one that is sound is', () => {
    const { result, stderr } = copy()
    expect(stderr).toBe('')
    expect(result).toMatchObject({ faults: 0, findings: [] })
    expect(result.version).toMatch(new RegExp(`^${major}\\.`))
    // template1, postgres, app and the other two.
    expect(result.databases).toBe(5)
    expect(result.relations).toBeGreaterThan(5 * 60)
    expect(result.indexes).toBeGreaterThan(5 * 100)
    expect(result.pages).toBeGreaterThan(5 * 800)
  })

  if (major !== newest) return

  test('a bit that flipped in a table is found, by its checksum and by who reads it', () => {
    const { result } = copy(data => flip(join(data, rows), 8192 + 4000))
    expect(result.faults).toBeGreaterThan(1)
    expect(result.findings.join('\n')).toMatch(/public\.kept: invalid page in block 1 of relation/)
    expect(result.findings.join('\n')).toMatch(new RegExp(`page 1 of ${rows} does not match its checksum`))
  })

  test('an index that lacks rows is found, though every page of it is as it was written', async () => {
    const before = temporaryDirectory('index')
    cpSync(join(server.mounts.volume, 'pgdata', index), join(before, 'index'))
    await ask('SET default_transaction_read_only = off; INSERT INTO public.kept (n) VALUES (-1)')
    await ask('CHECKPOINT', 'postgres')
    const { result } = copy(data => cpSync(join(before, 'index'), join(data, index)))
    rmSync(before, { recursive: true })
    expect(result.findings.join('\n')).toMatch(/^public\.kept_n: heap tuple .* lacks matching index tuple/)
    expect(result.faults).toBe(1)
  })

  test('one that does not recover is told as that, and one without data is refused', () => {
    const broken = copy(data => rmSync(join(data, 'pg_wal'), { recursive: true }))
    expect(broken.result.findings).toEqual([expect.stringMatching(/^Postgres does not recover: .*pg_wal/)])
    const empty = copy(data => rmSync(join(data, 'global', 'pg_control')))
    expect(empty).toMatchObject({ status: 23, stderr: expect.stringMatching(/data-lost/) })
  })
})
