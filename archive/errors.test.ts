/** Tests the messages of archive errors that clients and administrators read. */
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { readRecord } from './backup/read.ts'
import { backupNames } from './backup/record.ts'
import { archiveKey } from './object/key.ts'
import { type Archive, putOnce } from './put.ts'
import { openDirectoryStore } from './store/directory.ts'

const incarnation = { databaseId: '01890000-0000-7000-8000-000000000001', number: 1 }
const id = '01890000-0000-7000-8000-000000000002'
const { record: name } = backupNames(incarnation, id)
let root: string
let archive: Archive
beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), 'espalier-archive-errors-'))
  archive = { store: await openDirectoryStore(root), keys: { current: archiveKey(Buffer.alloc(32, 1)), previous: [] } }
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

function put(text: string, to = archive) {
  const bytes = Buffer.from(text)
  const content = { sha256: createHash('sha256').update(bytes).digest('hex'), size: bytes.length }
  const source = (async function* () {
    yield bytes
  })()
  return putOnce(to, { name, content, source })
}

test.each([
  ['text that is not JSON', '{', /record is not valid JSON$/],
  ['JSON that is not an object', '[]', /record is invalid: .*expected object/],
  ['an invalid field', '{"version":2}', /record is invalid: version: .*; a different version of Espalier may have/],
])('a record that contains %s is damaged', async (_, text, message) => {
  await put(text)
  await expect(readRecord(archive, incarnation, id)).rejects.toThrow(message)
})

test('a deletion during a write is not reported as a failure of the store', async () => {
  const store = { ...archive.store, create: async () => 'exists' as const }
  await expect(put('x', { ...archive, store })).rejects.toThrow(
    `${name}: the object was deleted during the request; try again`,
  )
})
