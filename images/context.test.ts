import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import {
  consoleEntries,
  digestOf,
  filesUnder,
  instanceEntries,
  isLoaded,
  isProduct,
  layOut,
  productEntries,
} from './context.ts'
import { root } from './home.ts'

function directoryWith(files: Record<string, string>): string {
  const directory = mkdtempSync(join(tmpdir(), 'espalier-context-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, name)), { recursive: true })
    writeFileSync(join(directory, name), content)
  }
  return directory
}

describe('what an image is made of', () => {
  test.each([
    ['main.ts', true],
    ['generated/tasks.espalier.dev.yaml', true],
    ['proto/csi.proto', true],
    ['main.test.ts', false],
    ['runtime/testing.ts', false],
    ['testing/fixture.ts', false],
    ['runtime/recovery.fixture.ts', false],
    ['.env', false],
    ['deep/.secret/key', false],
    ['debug.log', false],
    ['README.md', false],
    ['node_modules/a/index.js', false],
  ])('of Espalier, %s: %s', (name, expected) => expect(isProduct(name)).toBe(expected))

  test.each([
    ['pg/lib/index.js', true],
    ['pg/LICENSE', true],
    ['pg/LICENSE.md', true],
    ['pg/README.md', false],
    ['zod/index.d.ts', false],
    ['zod/index.d.cts', false],
    ['zod/index.js.map', false],
    ['@types/node/index.js', false],
    ['@kubernetes/client-node/node_modules/@types/node/LICENSE', false],
    ['bare-fs/prebuilds/linux-x64/bare-fs.bare', false],
    ['@grpc/proto-loader/build/src/index.js', true],
    ['long/umd/index.js', true],
    ['.bin/yaml', false],
    ['gpt-tokenizer/src/main.ts', false],
    ['gpt-tokenizer/esm/encoding/cl100k_base.js', true],
  ])('of packages, %s: %s', (name, expected) => expect(isLoaded(name)).toBe(expected))

  test('the product is complete: it contains everything that its files import', async () => {
    const entries = await productEntries(root)
    const names = new Set(entries.map(entry => entry.to))
    for (const { from, to } of entries.filter(entry => /\.m?[jt]s$/.test(entry.to))) {
      for (const [, path = ''] of readFileSync(from, 'utf8').matchAll(/(?:from|import\() ?'(\.[^']+)'/g)) {
        expect(names, `${to} imports ${path}`).toContain(join(dirname(to), path))
      }
    }
    expect(entries.filter(entry => entry.executable).map(entry => entry.to)).toContain('source/bin/espalier.mjs')
  })

  test('a built console is beside the product, and may be missing', async () => {
    const directory = directoryWith({
      'console/dist/index.html': 'x',
      'console/dist/assets/a.js.br': 'y',
      'console/a.ts': '',
    })
    expect((await consoleEntries(directory)).map(({ to }) => to)).toEqual([
      'source/console/dist/assets/a.js.br',
      'source/console/dist/index.html',
    ])
    expect(await consoleEntries(directoryWith({}))).toEqual([])
  })

  test('the instance folder imports nothing outside itself', async () => {
    const entries = await instanceEntries(root)
    const names = new Set(entries.map(entry => entry.to))
    for (const { from, to } of entries.filter(entry => entry.to.endsWith('.ts'))) {
      for (const [, path = ''] of readFileSync(from, 'utf8').matchAll(/(?:from|import\() ?'([^']+)'/g)) {
        if (path.startsWith('node:')) continue
        expect(names, `${to} imports ${path}`).toContain(join(dirname(to), path))
      }
    }
    expect(entries.filter(entry => entry.executable).map(entry => entry.to)).toEqual(['source/instance/espalier.sh'])
  })
})

describe('a context', () => {
  const entriesOf = async (directory: string) =>
    (await filesUnder(directory)).map(name => ({ from: join(directory, name), to: name, executable: name === 'run' }))

  test('has the same digest for the same files on any machine at any time, and another digest for another name, mode or text', async () => {
    const here = await entriesOf(directoryWith({ 'a/b': '1', run: '2' }))
    const there = await entriesOf(directoryWith({ run: '2', 'a/b': '1' }))
    const digest = await digestOf(here, 'x')
    expect(await digestOf(there.toReversed(), 'x')).toBe(digest)
    const others = [
      await digestOf(here, 'y'),
      await digestOf(await entriesOf(directoryWith({ 'a/c': '1', run: '2' })), 'x'),
      await digestOf(await entriesOf(directoryWith({ 'a/b': '3', run: '2' })), 'x'),
      await digestOf(
        here.map(entry => ({ ...entry, executable: !entry.executable })),
        'x',
      ),
    ]
    expect(new Set([digest, ...others]).size).toBe(5)
  })

  test('has the same times and modes everywhere', async () => {
    const source = directoryWith({ 'a/b': '1', run: '2' })
    chmodSync(join(source, 'a/b'), 0o600)
    utimesSync(join(source, 'run'), 1, 1)
    const target = directoryWith({})
    await layOut(await entriesOf(source), target)
    const seen = ['a', 'a/b', 'run'].map(name => statSync(join(target, name)))
    expect(seen.map(({ mode }) => (mode & 0o7777).toString(8))).toEqual(['755', '644', '755'])
    expect(new Set(seen.map(({ mtimeMs }) => mtimeMs)).size).toBe(1)
    expect(readFileSync(join(target, 'a/b'), 'utf8')).toBe('1')
  })

  test('contains TypeScript with types removed, which runs without loading a compiler', async () => {
    const target = directoryWith({})
    await layOut(await productEntries(root), target)
    symlinkSync(join(root, 'node_modules'), join(target, 'node_modules'))
    const program = `process.on('exit', () => console.log(process.moduleLoadList.some(name => name.includes('amaro'))))`
    const lastLine = (from: string) => {
      const args = ['--import', `data:text/javascript,${encodeURIComponent(program)}`, join(from, 'bin/espalier.mjs')]
      const env = { NODE_DISABLE_COMPILE_CACHE: '1' }
      const { stdout, stderr } = spawnSync(process.execPath, [...args, '--help'], { env, encoding: 'utf8' })
      expect(stdout, stderr).toContain('operator')
      return stdout.trim().split('\n').at(-1)
    }
    expect(lastLine(join(target, 'source'))).toBe('false')
    expect(lastLine(root)).toBe('true')
    const [original, laidOut] = [root, join(target, 'source')].map(from =>
      readFileSync(join(from, 'bin/main.ts'), 'utf8').split('\n'),
    )
    expect(laidOut?.map(line => line.length)).toEqual(original?.map(line => line.length))
  })

  test('contains unchanged TypeScript of packages: it is not run, and the types of some cannot be removed', async () => {
    const text = 'export class Timer { constructor(private callback: () => void) {} }'
    const [source, target] = [directoryWith({ 'timer.ts': text }), directoryWith({})]
    const to = 'packages/node_modules/timers/src/timer.ts'
    await layOut([{ from: join(source, 'timer.ts'), to, executable: false }], target)
    expect(readFileSync(join(target, to), 'utf8')).toBe(text)
  })

  test('of a missing folder is empty', async () => {
    expect(await filesUnder(join(directoryWith({}), 'none'))).toEqual([])
  })
})
