/**
 * pgvector for the Postgres of the npm packages, fetched from the Python package index. Tests are skipped if the index
 * is unreachable.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, test } from 'vitest'
import { postgresEnvironment } from '../../operator/postgres/testing/postgres.ts'
import { madeOnce } from '../../services/testing/made-once.ts'
import { startPostgres } from '../../services/testing/postgres.ts'
import { createInstaller } from '../runtime/images/install.ts'
import { createPostgresImages, imageHasPgvector } from '../runtime/images/postgres.ts'
import { temporaryDirectory, testOwner } from '../runtime/testing/runtime.ts'
import { fetchPgvector, pgvectorMajors } from './pgvector.ts'
import { copyExtensions } from './store.ts'

/** A home directory with an extension for one major version, of one script. */
function homeWith(major: string, script: string): string {
  const home = temporaryDirectory()
  for (const name of ['lib', 'share']) mkdirSync(join(home, 'extensions', major, name), { recursive: true })
  writeFileSync(join(home, 'extensions', major, 'lib', 'vector.so'), 'library')
  writeFileSync(join(home, 'extensions', major, 'share', 'vector.control'), 'control')
  writeFileSync(join(home, 'extensions', major, 'share', 'vector--1.sql'), script)
  return home
}

describe('copyExtensions', () => {
  test('puts files where Postgres searches for them, and replaces those of another version', () => {
    const native = temporaryDirectory()
    copyExtensions(homeWith('18', 'old'), '18', native)
    const share = join(native, 'share', 'postgresql', 'extension')
    expect(readFileSync(join(native, 'lib', 'postgresql', 'vector.so'), 'utf8')).toBe('library')
    expect(readdirSync(share).toSorted()).toEqual(['vector--1.sql', 'vector.control'])
    copyExtensions(homeWith('18', 'new'), '18', native)
    expect(readFileSync(join(share, 'vector--1.sql'), 'utf8')).toBe('new')
  })

  test('changes nothing for another major version', () => {
    const native = temporaryDirectory()
    copyExtensions(homeWith('18', ''), '16', native)
    expect(existsSync(join(native, 'lib'))).toBe(false)
  })
})

test('an extension is copied into the binaries of an earlier release', async () => {
  const home = homeWith('18', '')
  const earlier = join(home, 'binaries', 'postgres-18-18.0.0')
  mkdirSync(earlier, { recursive: true })
  await createInstaller({ home, owner: testOwner(), packagesFrom: '/nowhere/file.js' }).addExtensions('18')
  expect(existsSync(join(earlier, 'lib', 'postgresql', 'vector.so'))).toBe(true)
})

test('fetchPgvector reports what is not available', async () => {
  await expect(fetchPgvector(temporaryDirectory(), '17')).rejects.toThrow('pgvector is not available for Postgres 17')
  await expect(fetchPgvector(temporaryDirectory(), '18', 'riscv64')).rejects.toThrow(
    'pgvector is not available for riscv64',
  )
})

/**
 * A home directory filled by `espalier pgvector`, shared by all tests of this machine; undefined if it is not possible.
 */
const fetchedOnce = (): string | undefined =>
  madeOnce(`pgvector-${pgvectorMajors.join('-')}`, making => {
    const program = fileURLToPath(new URL('../../bin/espalier.mjs', import.meta.url))
    const { status, stderr } = spawnSync(process.execPath, [program, 'pgvector'], {
      // The npm packages stay unchanged: root uses copies.
      env: { ...process.env, ESPALIER_HOME: making },
      encoding: 'utf8',
    })
    if (status !== 0 && !/pip/.test(stderr)) throw new Error(stderr)
    return status === 0 ? making : undefined
  })

test('fetchPgvector runs no code of the current directory', () => {
  const directory = temporaryDirectory()
  mkdirSync(join(directory, 'pip'))
  for (const file of ['pip/__init__.py', 'zipfile.py']) writeFileSync(join(directory, file), '')
  writeFileSync(join(directory, 'pip', '__main__.py'), "open('has-run', 'w')")
  const program = fileURLToPath(new URL('../../bin/espalier.mjs', import.meta.url))
  // An index that does not answer: nothing is downloaded.
  const env = { ...process.env, ESPALIER_HOME: directory, PIP_INDEX_URL: 'http://127.0.0.1:9/', PIP_RETRIES: '0' }
  const { status } = spawnSync(process.execPath, [program, 'pgvector'], { cwd: directory, env })
  expect([status, existsSync(join(directory, 'has-run'))]).toEqual([1, false])
})

describe('with pgvector of the package index', () => {
  let fetched: string | undefined
  beforeAll(() => {
    fetched = fetchedOnce()
  }, 300_000)

  test.for(pgvectorMajors)(
    'a running Postgres %s can use it at once, for roles without superuser too',
    async (major, { skip }) => {
      if (fetched === undefined) return skip('pgvector: needs python3 with pip and its package index')
      const owner = testOwner()
      if (owner === undefined) return skip('pgvector: would change the packages of npm, unless it runs as root')
      const home = temporaryDirectory()
      chmodSync(home, 0o711)
      const images = createPostgresImages({ home, owner, machineDirectories: [] })
      const image = `postgres:${major}`
      const [bin = ''] = (await images(image)).path
      expect(await imageHasPgvector(images, image)).toBe(false)
      const environment = postgresEnvironment(major)
      const env = { ...environment.env, PATH: `${bin}:/usr/bin:/bin` }
      const postgres = await startPostgres(major, {}, { ...environment, env })
      try {
        await postgres.run('CREATE ROLE admin LOGIN')
        await postgres.run('CREATE DATABASE app OWNER admin')
        const create = 'SET ROLE admin; CREATE EXTENSION vector'
        await expect(postgres.run(create, 'app')).rejects.toThrow('extension "vector" is not available')

        cpSync(join(fetched, 'extensions'), join(home, 'extensions'), { recursive: true })
        await createInstaller({ home, owner }).addExtensions(major)

        expect(await imageHasPgvector(images, image)).toBe(true)
        await postgres.run(create, 'app')
        await postgres.run(
          `CREATE TABLE t AS SELECT i AS id, ('[' || i || ',1,1]')::vector(3) AS v FROM generate_series(1, 1000) i;
         CREATE INDEX ON t USING hnsw (v vector_l2_ops)`,
          'app',
        )
        const nearest = "SELECT id FROM t ORDER BY v <-> '[500,1,1]' LIMIT 1"
        const { rows } = await postgres.run(`EXPLAIN ${nearest}`, 'app')
        expect(JSON.stringify(rows)).toContain('Index Scan using t_v_idx')
        expect((await postgres.run(nearest, 'app')).rows).toEqual([{ id: 500 }])
      } finally {
        await postgres.stop()
      }
    },
  )
})
