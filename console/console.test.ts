/** What of the console needs no browser: its types, its size, and that it is a client like any other. */
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { describedApi, digestOf, generatedFrom } from './generate.ts'
import { firstLoad } from './sizes.ts'

const here = fileURLToPath(new URL('.', import.meta.url))

test('the types are those of the API: `make console-types` generates them', async () => {
  expect(generatedFrom()).toBe(digestOf(await describedApi()))
})

test('the first load has what the entry imports statically, each once', () => {
  const manifest = {
    'index.html': { file: 'a.js', css: ['a.css'], imports: ['_b.js', '_c.js'], isEntry: true },
    '_b.js': { file: 'b.js', imports: ['_c.js', '_b.js'] },
    '_c.js': { file: 'c.js' },
    'page.tsx': { file: 'page.js', imports: ['_b.js'] },
  }
  expect(firstLoad(manifest)).toEqual(['a.css', 'a.js', 'b.js', 'c.js'])
})

const sources = globSync('src/**/*.{ts,tsx}', { cwd: here }).map(path => ({
  path,
  text: readFileSync(join(here, path), 'utf8'),
}))

test('the console imports nothing of the product', () => {
  const outside = sources.flatMap(({ path, text }) =>
    [...text.matchAll(/(?:from|import)\s*\(?'(\.[^']+)'/g)]
      .map(([, target = '']) => normalize(join(dirname(path), target)))
      .filter(target => !target.startsWith('src/')),
  )
  expect(sources.length).toBeGreaterThan(20)
  expect(outside).toEqual([])
})

test('no text of the server becomes HTML, and no token is stored', () => {
  const forbidden =
    /dangerouslySetInnerHTML|\.innerHTML|\.outerHTML|insertAdjacentHTML|document\.write|sessionStorage|\beval\(/
  const product = sources.filter(({ path }) => !path.endsWith('.test.ts'))
  expect(product.filter(({ text }) => forbidden.test(text)).map(({ path }) => path)).toEqual([])
  const storing = product.filter(({ text }) => text.includes('localStorage')).map(({ path }) => path)
  expect(storing.sort()).toEqual(['src/lib/saved-queries.ts', 'src/lib/theme.ts'])
})
