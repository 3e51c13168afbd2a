import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { saltAfter } from '../archive/predecessor.ts'
import type { ArchiveReader } from './client.ts'
import { nextSegment, WalSupply } from './wal.ts'

function supplyOf(reader: Partial<ArchiveReader>, ofBackup?: ReadonlyMap<string, Buffer>) {
  const directory = join(mkdtempSync(join(tmpdir(), 'espalier-wal-')), 'wal')
  onTestFinished(() => rmSync(join(directory, '..'), { recursive: true, force: true }))
  const nothing = { read: async () => undefined, readWal: async () => undefined, close() {} }
  const supply = new WalSupply(directory, { ...nothing, ...reader }, ofBackup)
  supply.start()
  onTestFinished(() => supply.stop())
  const limits = { timeout: 20_000, interval: 10 }
  /** Requests a file as `restore_command` does. Returns the content, or undefined. */
  const request = async (name: string): Promise<string | undefined> => {
    writeFileSync(join(directory, 'want', name), '')
    const at = (folder: string) => join(directory, folder, name)
    await vi.waitFor(() => expect(existsSync(at('have')) || existsSync(at('none'))).toBe(true), limits)
    rmSync(join(directory, 'want', name))
    return existsSync(at('have')) ? readFileSync(at('have'), 'utf8') : undefined
  }
  return { supply, request }
}
const digest = (text: string) => createHash('sha256').update(text).digest()
const [one, two, three] = [1, 2, 3].map(number => `00000001000000000000000${number}`) as [string, string, string]

test('a segment that does not follow the replayed segment counts as missing, also if it was fetched ahead', async () => {
  const salts: Record<string, Buffer> = {
    [one]: saltAfter(digest('zero')),
    [two]: saltAfter(digest(one)),
    [three]: saltAfter(digest('another second segment')),
  }
  const requested: [string, Buffer | undefined][] = []
  const readWal = async (path: string, predecessor?: Buffer) => {
    const [folder, name = ''] = path.split('/')
    if (folder === 'tail') requested.push([name, predecessor])
    // The earlier segment arrives last.
    await delay(name === two ? 200 : 10)
    const isThere = folder === 'wal' && salts[name] !== undefined
    return isThere ? { content: Buffer.from(name), sha256: digest(name), salt: salts[name] } : undefined
  }
  const { supply, request } = supplyOf({ readWal })
  expect([await request(one), await request(two), await request(three)]).toEqual([one, two, undefined])
  expect(requested).toEqual([[three, digest(two)]])
  expect([supply.foreign, supply.missing, supply.end]).toEqual([three, three, 3n << 24n])
}, 30_000)

test('for a segment that differs from the base backup, Postgres uses the one in the base backup', async () => {
  const readWal = async (path: string) =>
    path.startsWith('wal/') && path < `wal/${three}`
      ? { content: Buffer.from(path), sha256: digest(path), salt: saltAfter(digest('of the backup')) }
      : undefined
  const { supply, request } = supplyOf({ readWal }, new Map([[one, digest('of the backup')]]))
  expect([await request(one), await request(two), await request(three)]).toEqual([undefined, `wal/${two}`, undefined])
  expect([supply.foreign, supply.missing]).toEqual([one, three])
}, 30_000)

test('six following segments are fetched ahead, two at a time', async () => {
  const directory = join(mkdtempSync(join(tmpdir(), 'espalier-wal-')), 'wal')
  onTestFinished(() => rmSync(join(directory, '..'), { recursive: true, force: true }))
  let running = 0
  let most = 0
  const supply = new WalSupply(directory, {
    read: async () => undefined,
    async readWal() {
      most = Math.max(most, ++running)
      await delay(10)
      running--
      return { content: Buffer.from('of a segment'), sha256: undefined, salt: undefined }
    },
    close() {},
  })
  supply.start()
  onTestFinished(() => supply.stop())
  const first = '000000010000000000000001'
  writeFileSync(join(directory, 'want', first), '')
  const names = [first]
  while (names.length < 7) names.push(nextSegment(names.at(-1) ?? ''))
  const fetched = () => names.filter(name => existsSync(join(directory, 'have', name)))
  await vi.waitFor(() => expect(fetched()).toEqual(names.slice(0, 6)), { timeout: 20_000 })
  await delay(100)
  expect(fetched()).toEqual(names.slice(0, 6))
  expect(most).toBe(2)
}, 30_000)
