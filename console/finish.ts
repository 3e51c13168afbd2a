/** The last step of a build: compresses each file, and fails if the first load is too large. */
import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import type { Plugin } from 'vite'
import { firstLoad, firstLoadLimit, type Manifest } from './sizes.ts'

const compressible = /\.(js|css|html|svg|json)$/

async function compress(path: string): Promise<void> {
  const content = await readFile(path)
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: content.length }
  await writeFile(`${path}.br`, await promisify(brotliCompress)(content, { params }))
  await writeFile(`${path}.gz`, await promisify(gzip)(content, { level: 9 }))
}

/** @throws if the first load exceeds the limit */
async function checkFirstLoad(dist: string): Promise<void> {
  const manifest: Manifest = JSON.parse(await readFile(join(dist, '.vite/manifest.json'), 'utf8'))
  const files = [...firstLoad(manifest), 'index.html']
  const sizes = await Promise.all(files.map(async file => (await stat(join(dist, `${file}.gz`))).size))
  const total = sizes.reduce((sum, size) => sum + size, 0)
  const text = `first load: ${(total / 1024).toFixed(1)} KiB in ${files.length} files with gzip`
  if (total > firstLoadLimit) throw new Error(`${text}; at most ${firstLoadLimit / 1024} KiB are allowed`)
  console.log(text)
}

export function finish(): Plugin {
  let dist = ''
  return {
    name: 'espalier-finish',
    apply: 'build',
    configResolved: config => {
      dist = join(config.root, config.build.outDir)
    },
    closeBundle: {
      order: 'post',
      handler: async () => {
        const names = await readdir(dist, { recursive: true })
        await Promise.all(names.filter(name => compressible.test(name)).map(name => compress(join(dist, name))))
        await checkFirstLoad(dist)
        // Only `checkFirstLoad` reads the manifest.
        await rm(join(dist, '.vite'), { recursive: true })
      },
    },
  }
}
