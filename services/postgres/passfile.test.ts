import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { passwordIn, readPasswordFile } from './passfile.ts'

const wanted = { name: 'h', port: 5432, database: 'd', user: 'u' }
const file = `# h:5432:d:u:comment
h:5432:d:other:no
h:5433:*:*:no
:::u:no
*:*:d:u:it\\:s \\\\ right
h:5432:d:u:later
`

test('the first matching line has the password', () => {
  expect(passwordIn(file, wanted)).toBe('it:s \\ right')
  expect(passwordIn(file, { ...wanted, port: 5433 })).toBe('no')
  expect(passwordIn(file, { ...wanted, database: 'e' })).toBeUndefined()
  expect(passwordIn('\\:\\:1:*:*:*:six\r\n', { ...wanted, name: '::1' })).toBe('six')
  expect(passwordIn('localhost:*:*:*:local', { ...wanted, name: '/run/pg' })).toBe('local')
  expect(passwordIn('*:*:*:*:', wanted)).toBeUndefined()
})

test('a file that other users can read is refused, and a missing file has no password', () => {
  const directory = mkdtempSync(join(tmpdir(), 'espalier-passfile-'))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  const [open, own] = [join(directory, 'open'), join(directory, 'own')]
  writeFileSync(open, file, { mode: 0o644 })
  writeFileSync(own, file, { mode: 0o600 })
  expect(() => readPasswordFile(open, wanted)).toThrow('600')
  expect(readPasswordFile(own, wanted)).toBe('it:s \\ right')
  expect(readPasswordFile(join(directory, 'none'), wanted)).toBeUndefined()
  expect(readPasswordFile(directory, wanted)).toBeUndefined()
})
