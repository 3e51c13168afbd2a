import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { writeBundle } from './bundle.ts'
import { bundleEntries, instanceEntries, layOut, productEntries } from './context.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const directories: string[] = []

function temporary(): string {
  const directory = mkdtempSync(join(tmpdir(), 'espalier-bundle-'))
  directories.push(directory)
  return directory
}

afterAll(() => {
  for (const directory of directories) rmSync(directory, { recursive: true, force: true })
})

function checkoutOf(files: Record<string, string>): string {
  const checkout = temporary()
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(checkout, name)), { recursive: true })
    writeFileSync(join(checkout, name), text)
  }
  return checkout
}

const textsOf = (directory: string): string[] =>
  readdirSync(directory)
    .sort()
    .map(name => `${name}\n${readFileSync(join(directory, name), 'utf8')}`)

test('a module finds its own path', async () => {
  const checkout = checkoutOf({
    'bin/main.ts': `export const load = () => import('../api/files.ts')`,
    'api/files.ts': `import { basename } from 'node:path'
      export const paths: string[] = [import.meta.url, import.meta.filename, import.meta.dirname, basename('a/b')]`,
  })
  await writeBundle('espalier', checkout, join(checkout, 'bin/bundle'))
  const { load } = await import(join(checkout, 'bin/bundle/main.js'))
  const file = join(checkout, 'api/files.ts')
  expect((await load()).paths).toEqual([`file://${file}`, file, dirname(file), 'b'])
})

test.each(['__dirname', 'import.meta.url'])('a package that uses its own path (%s) is refused by name', async used => {
  const checkout = checkoutOf({
    'bin/main.ts': `import path from 'finds'; console.log(path)`,
    'node_modules/finds/package.json': '{"name": "finds", "main": "index.mjs"}',
    'node_modules/finds/index.mjs': `export default ${used}`,
  })
  const written = writeBundle('espalier', checkout, join(checkout, 'bin/bundle'))
  await expect(written).rejects.toThrow('node_modules/finds/index.mjs uses its own path')
})

test('a missing module is refused', async () => {
  const checkout = checkoutOf({ 'bin/main.ts': `import { a } from './missing.ts'; console.log(a)` })
  await expect(writeBundle('espalier', checkout, join(checkout, 'bin/bundle'))).rejects.toThrow('missing.ts')
})

describe('the bundles of the images', () => {
  let context: string
  const environment = { PATH: process.env.PATH, NODE_DISABLE_COMPILE_CACHE: '1' }
  /** Prints, at exit, which of Espalier's own files were loaded. */
  const counting = `data:text/javascript,${encodeURIComponent(`import { registerHooks } from 'node:module'
    const loaded = []
    registerHooks({
      resolve(specifier, context, next) {
        const resolved = next(specifier, context)
        if (resolved.url.endsWith('.ts')) loaded.push(resolved.url)
        return resolved
      },
    })
    process.on('exit', () => console.log('typescript:' + loaded.join()))`)}`

  beforeAll(async () => {
    context = temporary()
    const [espalier, postgres] = [temporary(), temporary()]
    await writeBundle('espalier', root, espalier)
    await writeBundle('postgres', root, postgres)
    const entries = [...(await productEntries(root)), ...(await bundleEntries('espalier', espalier))]
    await layOut(entries, join(context, 'espalier'))
    symlinkSync(join(root, 'node_modules'), join(context, 'espalier/node_modules'))
    await layOut(
      [...(await instanceEntries(root)), ...(await bundleEntries('postgres', postgres))],
      join(context, 'postgres'),
    )
  })

  test('are the same bytes from the same sources', async () => {
    const again = temporary()
    await writeBundle('espalier', root, again)
    expect(textsOf(again)).toEqual(textsOf(join(context, 'espalier/source/bin/bundle')))
  })

  test.each(['api', 'operator', 'gateway', 'rest', 'mcp', 'mcp-bridge', 'rag', 'archive', 'csi', 'db'])(
    '`%s` loads no other file of Espalier',
    name => {
      const program = join(context, 'espalier/source/bin/espalier.mjs')
      const options = { env: environment, encoding: 'utf8' } as const
      const { stdout, stderr } = spawnSync(process.execPath, ['--import', counting, program, name, '--help'], options)
      expect(stdout, stderr).toMatch(/^Usage: espalier/m)
      expect(stdout).toMatch(/^typescript:$/m)
    },
  )

  test('serve', async () => {
    const configuration = join(temporary(), 'rest.conf')
    writeFileSync(configuration, 'db-uri = "postgresql://a:b@127.0.0.1:1/c"\ndb-schemas = "public"\nserver-port = 0\n')
    const program = join(context, 'espalier/source/bin/espalier.mjs')
    const child = spawn(process.execPath, [program, 'rest', configuration], { env: environment })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', text => (output += text))
    try {
      await expect.poll(() => output).toContain('espalier rest listens on')
    } finally {
      child.kill()
      await once(child, 'exit')
    }
  })

  test('run beside Postgres', () => {
    const program = join(context, 'postgres/source/instance/espalier.sh')
    rmSync(join(context, 'postgres/source/instance/main.ts'))
    const { stderr, status } = spawnSync(program, ['instance', 'prepare'], { env: environment, encoding: 'utf8' })
    expect(stderr).toContain('--data')
    expect(status).not.toBe(0)
  })
})
