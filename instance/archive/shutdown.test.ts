import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { postgresEnded } from './shutdown.ts'

let data: string
const lockFile = (status: string) =>
  writeFileSync(join(data, 'postmaster.pid'), `1\n${data}\n0\n5432\n\n\n0\n${status}\n`)
beforeEach(() => {
  data = mkdtempSync(join(tmpdir(), 'espalier-shutdown-'))
  onTestFinished(() => rmSync(data, { recursive: true }))
})
/** Whether `postgresEnded` still waits after 400 ms, which is longer than `beginMs`. */
const waits = async (times = { beginMs: 40, endMs: 10_000, pollMs: 5 }) => {
  const ended = postgresEnded(data, times).then(() => false)
  return Promise.race([ended, new Promise<true>(resolve => setTimeout(() => resolve(true), 400))])
}

test('waits while Postgres stops, until its lock file is removed', async () => {
  lockFile('stopping')
  expect(await waits()).toBe(true)
  const ended = postgresEnded(data, { beginMs: 10, endMs: 60_000, pollMs: 5 })
  rmSync(join(data, 'postmaster.pid'))
  await ended
})

test('waits until Postgres starts to stop, but not if Postgres continues to run', async () => {
  lockFile('ready')
  expect(await waits()).toBe(false)
  const waiting = waits({ beginMs: 10_000, endMs: 60_000, pollMs: 5 })
  lockFile('stopping')
  expect(await waiting).toBe(true)
  rmSync(join(data, 'postmaster.pid'))
})

test('does not wait without a running Postgres, and has a timeout', async () => {
  expect(await waits()).toBe(false)
  lockFile('stopping')
  expect(await waits({ beginMs: 10, endMs: 40, pollMs: 5 })).toBe(false)
})
