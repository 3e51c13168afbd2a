import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { ProjectedFiles } from '../pods/projection.ts'
import { temporaryDirectory } from '../testing/runtime.ts'
import { sameFiles, writeAtomically } from './atomic.ts'

const files = (entries: Record<string, string>, mode = 0o600): ProjectedFiles =>
  new Map(Object.entries(entries).map(([path, content]) => [path, { content: Buffer.from(content), mode }]))

test('the files of a volume change together, at the same paths, and no old file remains', () => {
  const directory = join(temporaryDirectory(), 'volume')
  const owner = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : undefined
  writeAtomically(directory, files({ a: '1', 'sub/b': '2', old: '3' }), owner)
  expect(readFileSync(join(directory, 'sub/b'), 'utf8')).toBe('2')
  expect(statSync(join(directory, 'a')).mode & 0o777).toBe(0o600)
  if (owner) expect(statSync(join(directory, 'sub/b')).uid).toBe(65_534)
  writeAtomically(directory, files({ a: 'changed', 'new/c': '4' }, 0o644), owner)
  expect(readFileSync(join(directory, 'a'), 'utf8')).toBe('changed')
  expect(readFileSync(join(directory, 'new/c'), 'utf8')).toBe('4')
  expect(readdirSync(directory).filter(name => !name.startsWith('..'))).toEqual(['a', 'new'])
  expect(readdirSync(directory)).toHaveLength(4) // a, new, ..data and its target directory
})

test('a reader sees either all old files or all new ones', () => {
  const directory = join(temporaryDirectory(), 'volume')
  writeAtomically(directory, files({ a: '0', b: '0' }), undefined)
  for (let round = 1; round < 50; round += 1) {
    const contents = readdirSync(join(directory, '..data')).map(name =>
      readFileSync(join(directory, '..data', name), 'utf8'),
    )
    expect(new Set(contents)).toEqual(new Set([String(round - 1)]))
    writeAtomically(directory, files({ a: String(round), b: String(round) }), undefined)
  }
})

test('sameFiles compares content, mode and names', () => {
  expect(sameFiles(files({ a: '1' }), files({ a: '1' }))).toBe(true)
  expect(sameFiles(files({ a: '1' }), files({ a: '2' }))).toBe(false)
  expect(sameFiles(files({ a: '1' }), files({ a: '1' }, 0o644))).toBe(false)
  expect(sameFiles(files({ a: '1' }), files({ b: '1' }))).toBe(false)
  expect(sameFiles(files({ a: '1' }), files({ a: '1', b: '2' }))).toBe(false)
})
