/** Tests `espalier archive fetch` after two servers have archived under one identity. */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { expect, onTestFinished, test } from 'vitest'
import { tailPrefix, walPrefix } from '../../../archive/names.ts'
import { putOnce } from '../../../archive/put.ts'
import { withArchive } from './open.ts'

const incarnation = { databaseId: '0190aaaa-0000-7000-8000-000000000003', number: 1 }
const [one, two] = ['000000010000000000000001', '000000010000000000000002']
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest()

test('a segment or its streamed part is treated as missing if another server archived the previous segment', {
  timeout: 60_000,
}, async () => {
  const root = mkdtempSync(join(tmpdir(), 'espalier-fetch-'))
  onTestFinished(() => rmSync(root, { recursive: true, force: true }))
  writeFileSync(join(root, 'keys'), Buffer.alloc(32, 7).toString('base64'))
  const store = { store: `file://${join(root, 'store')}`, 'key-file': join(root, 'keys') }
  const put = (name: string, bytes: Buffer, after: string) =>
    withArchive({ ...store, 's3-region': '', 's3-path-style': false }, archive => {
      const content = { sha256: sha256(bytes).toString('hex'), size: bytes.length }
      const predecessor = sha256(Buffer.from(after))
      return putOnce(archive, { name, content, source: Readable.from([bytes]), predecessor })
    })
  await put(`${walPrefix(incarnation)}${one}`, Buffer.from('first'), 'none')
  await put(`${walPrefix(incarnation)}${two}`, Buffer.from('second'), 'another first')
  await put(
    `${tailPrefix(incarnation)}${two}.00000000-00000006.${'a'.repeat(16)}`,
    Buffer.from('pieces'),
    'another first',
  )
  const fetch = (file: string) => {
    const flags = Object.entries(store).flatMap(([name, value]) => [`--${name}`, value])
    const args = ['archive', 'fetch', ...flags, '--database', incarnation.databaseId, file, join(root, 'RECOVERYXLOG')]
    return spawnSync(process.execPath, ['bin/espalier.mjs', ...args], { encoding: 'utf8' })
  }
  expect(fetch(one)).toMatchObject({ status: 0, stderr: '' })
  expect(readFileSync(join(root, 'RECOVERYXLOG'), 'utf8')).toBe('first')
  // The first call compares with the archived segment. The last call compares with the segment that Postgres replayed.
  expect(fetch(two)).toMatchObject({ status: 1, stderr: expect.stringContaining('archived by another server') })
  writeFileSync(join(root, one), 'another first')
  expect(fetch(two)).toMatchObject({ status: 0 })
  expect(readFileSync(join(root, 'RECOVERYXLOG'), 'utf8')).toBe('second')
})
