/** The record beside a volume, and what a crash leaves of it. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { unfinishedRecord } from '../runtime/volumes/persistent-volume.ts'
import { writeRecord } from './write-record.ts'

function makeVolume(): { place: string; directory: string } {
  const place = mkdtempSync(join(tmpdir(), 'espalier-record-'))
  onTestFinished(() => rmSync(place, { recursive: true }))
  const directory = join(place, 'volume')
  mkdirSync(directory)
  return { place, directory }
}

test.each([
  ['none', undefined],
  ['another', 'old'],
  ['the same', 'new'],
])(
  'is written beside the volume where there is %s, and nothing is left of a try that a crash ended',
  async (_, earlier) => {
    const { place, directory } = makeVolume()
    if (earlier !== undefined) writeFileSync(join(place, 'volume.json'), earlier)
    writeFileSync(unfinishedRecord(directory), 'half of one')
    await writeRecord(directory, 'new')
    expect(readFileSync(join(place, 'volume.json'), 'utf8')).toBe('new')
    expect(readdirSync(place).sort()).toEqual(['volume', 'volume.json'])
  },
)

test('that cannot be written leaves the one before', async () => {
  const { place, directory } = makeVolume()
  writeFileSync(join(place, 'volume.json'), 'old')
  mkdirSync(unfinishedRecord(directory))
  await expect(writeRecord(directory, 'new')).rejects.toThrow('EISDIR')
  expect(readFileSync(join(place, 'volume.json'), 'utf8')).toBe('old')
})
