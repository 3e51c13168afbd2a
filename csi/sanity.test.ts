/**
 * The sanity suite of the CSI specification's project (csi-test), and two more checks: a snapshot is one instant of a
 * volume in use, and a crash leaves no unfinished entry. Needs root, loop devices and XFS.
 */
import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseMounts } from '../server/mounts.ts'
import { openPool } from './pool.ts'
import { mountPoolFile } from './pool-file.ts'
import { type Driver, startDriver } from './server.ts'

const version = 'v5.6.0'
const has = (program: string) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0
const able =
  process.getuid?.() === 0 && existsSync('/dev/loop-control') && ['mkfs.xfs', 'go'].every(program => has(program))

function sanity(): string {
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'espalier', 'csi-sanity', version)
  const program = join(cache, 'csi-sanity')
  if (!existsSync(program)) {
    mkdirSync(cache, { recursive: true })
    const env = { ...process.env, GOBIN: cache, CGO_ENABLED: '0', GOFLAGS: '' }
    execFileSync('go', ['install', `github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity@${version}`], {
      env,
      cwd: tmpdir(),
    })
  }
  return program
}

describe.runIf(able)('the CSI driver on a real kernel', () => {
  let directory: string
  let pool: string
  let driver: Driver
  const logger = pino({ level: 'silent' })

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'espalier-csi-'))
    pool = join(directory, 'pool')
    await mountPoolFile(join(directory, 'pool.xfs'), 20 * 2 ** 30, pool)
    driver = await startDriver({
      socket: join(directory, 'csi.sock'),
      node: 'here',
      pool,
      overcommit: 1,
      version: 'test',
      logger,
    })
  })
  afterAll(async () => {
    await driver?.stop()
    for (const mount of parseMounts(readFileSync('/proc/self/mountinfo', 'utf8')).reverse()) {
      if (mount.path.startsWith(`${directory}/`)) spawnSync('umount', ['--lazy', mount.path])
    }
    rmSync(directory, { recursive: true, force: true })
  })

  test('passes the sanity suite', async () => {
    const program = sanity()
    const args = [
      `--csi.endpoint=unix://${join(directory, 'csi.sock')}`,
      `--csi.mountdir=${join(directory, 'target')}`,
      `--csi.stagingdir=${join(directory, 'staging')}`,
      '--csi.testvolumesize=1073741824',
      '--csi.testvolumeexpandsize=2147483648',
      '--ginkgo.no-color',
    ]
    // The driver runs in this process, so the suite must not block it.
    const { stdout } = await promisify(execFile)(program, args, { timeout: 240_000 }).catch(error => error)
    const failures = String(stdout)
      .split('\n')
      .filter(line => line.includes('[FAIL]'))
    expect(failures).toEqual([])
    expect(stdout).toContain('0 Failed')
    expect(readdirSync(join(pool, 'volumes'))).toEqual([])
    expect(readdirSync(join(pool, 'snapshots'))).toEqual([])
  }, 300_000)

  test('after a crash, the next start deletes unfinished entries and keeps finished ones', async () => {
    const opened = () => openPool({ directory: pool, overcommit: 1, now: Date.now })
    const first = await opened()
    const volume = await first.createVolume('kept', 300 * 2 ** 20, 0)
    mkdirSync(join(pool, 'volumes/.new-torn'))
    const second = await opened()
    expect(await second.volumes()).toEqual([volume])
    expect(readdirSync(join(pool, 'volumes'))).toEqual([volume.id])
    await second.deleteVolume(volume.id)
  })
})
