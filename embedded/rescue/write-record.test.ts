/** The record next to a volume, and its state after a crash. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { unfinishedRecord } from '../runtime/volumes/persistent-volume.ts'
import { writeRecord } from './write-record.ts'

function makeVolume(): { root: string; directory: string } {
  const root = mkdtempSync(join(tmpdir(), 'espalier-record-'))
  onTestFinished(() => rmSync(root, { recursive: true }))
  const directory = join(root, 'volume')
  mkdirSync(directory)
  return { root, directory }
}

test.each([
  ['none', undefined],
  ['another', 'old'],
  ['the same', 'new'],
])(
  'is written next to the volume if there is %s, and removes leftovers of an attempt that a crash interrupted',
  async (_, earlier) => {
    const { root, directory } = makeVolume()
    if (earlier !== undefined) writeFileSync(join(root, 'volume.json'), earlier)
    writeFileSync(unfinishedRecord(directory), 'half of one')
    await writeRecord(directory, 'new')
    expect(readFileSync(join(root, 'volume.json'), 'utf8')).toBe('new')
    expect(readdirSync(root).sort()).toEqual(['volume', 'volume.json'])
  },
)

test('keeps the previous record if the new record cannot be written', async () => {
  const { root, directory } = makeVolume()
  writeFileSync(join(root, 'volume.json'), 'old')
  mkdirSync(unfinishedRecord(directory))
  await expect(writeRecord(directory, 'new')).rejects.toThrow('EISDIR')
  expect(readFileSync(join(root, 'volume.json'), 'utf8')).toBe('old')
})
