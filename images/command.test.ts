import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { logged, type Run } from './command.ts'
import { installer } from './debian.ts'
import { buildFlags, ulimitFlags } from './engine.ts'
import { ImageError } from './errors.ts'
import { commandOf } from './testing/container.ts'

function inLog() {
  const directory = mkdtempSync(join(tmpdir(), 'espalier-command-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  const log = join(directory, 'log')
  return { run: logged(log), text: () => readFileSync(log, 'utf8') }
}

test('a successful program returns its output, and the log has everything', async () => {
  const { run, text } = inLog()
  const script = "console.error('chatter'); process.stdin.pipe(process.stdout)"
  expect(await run(process.execPath, ['-e', script], { input: 'said' })).toBe('said')
  expect(text()).toContain('chatter')
})

test('a failed program is reported with its last lines, and the path of the log', async () => {
  const { run } = inLog()
  const failure = run(process.execPath, ['-e', "console.log('why'); process.exit(3)"])
  await expect(failure).rejects.toThrow(ImageError)
  await expect(failure).rejects.toThrow(/failed \(3\); .*full log: .*\nwhy$/)
})

test('a missing program is named', async () => {
  await expect(inLog().run('espalier-no-such-program', [])).rejects.toThrow(
    /cannot run espalier-no-such-program.*ENOENT/,
  )
})

test('a hanging program is stopped, and the error states the limit', async () => {
  const { run } = inLog()
  const failure = run(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { timeoutMs: 200 })
  await expect(failure).rejects.toThrow(ImageError)
  await expect(failure).rejects.toThrow('had not ended after 0.2 s')
})

test('a build gets its arguments, labels and secrets', () => {
  const request = {
    name: 'localhost/a:1',
    dockerfile: '/d/Dockerfile',
    context: '/c',
    arguments: { BASE: 'b' },
    labels: { 'a.b': 'c d' },
    secrets: { apt: '/s/apt' },
    cache: false,
  }
  expect(buildFlags(request)).toEqual(
    ['--no-cache', '--build-arg', 'BASE=b', '--label', 'a.b=c d', '--secret', 'id=apt,src=/s/apt'].concat([
      '--tag',
      'localhost/a:1',
      '--file',
      '/d/Dockerfile',
      '/c',
    ]),
  )
  expect(buildFlags({ ...request, cache: true })).not.toContain('--no-cache')
})

test('a build does not exceed the limits of its user', () => {
  const limits = `Limit                     Soft Limit           Hard Limit           Units
Max processes             unlimited            unlimited            processes
Max open files            1024                 20000                files
`
  expect(ulimitFlags(limits)).toEqual(['--ulimit', 'nofile=4096:4096', '--ulimit', 'nproc=4096:4096'])
  expect(ulimitFlags(limits.replace('20000', '900  '))).toContain('nofile=900:900')
  expect(ulimitFlags(limits.replaceAll('unlimited', '901      '))).toContain('nproc=901:901')
})

test("a pod's command replaces entrypoint and command, its args only the command", () => {
  const image = { entrypoint: ['espalier'], command: ['--help'] }
  expect(commandOf(image)).toEqual(['espalier', '--help'])
  expect(commandOf(image, undefined, ['api'])).toEqual(['espalier', 'api'])
  expect(commandOf(image, ['haproxy'])).toEqual(['haproxy'])
  expect(commandOf(image, ['haproxy'], ['-v'])).toEqual(['haproxy', '-v'])
})

test('an unprivileged user installs nothing', async () => {
  const none: Run = () => Promise.reject(new Error('was run'))
  expect(await installer(none, () => {}, 1000)(['buildah'])).toBe(false)
})
