/** Checks of the console that need no browser: generated types, first load, imports, and unsafe browser APIs. */
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { describedApi, digestOf, generatedFrom } from './generate.ts'
import { firstLoad } from './sizes.ts'

const here = fileURLToPath(new URL('.', import.meta.url))

test('the generated types match the API (`make console-types` generates them again)', async () => {
  expect(generatedFrom()).toBe(digestOf(await describedApi()))
})

test('the first load contains each static import of the entry once', () => {
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

test('relative imports stay inside console/src', () => {
  const outside = sources.flatMap(({ path, text }) =>
    [...text.matchAll(/(?:from|import)\s*\(?'(\.[^']+)'/g)]
      .map(([, target = '']) => normalize(join(dirname(path), target)))
      .filter(target => !target.startsWith('src/')),
  )
  expect(sources.length).toBeGreaterThan(20)
  expect(outside).toEqual([])
})

test('the console renders no text as HTML, and only two modules use localStorage', () => {
  const forbidden =
    /dangerouslySetInnerHTML|\.innerHTML|\.outerHTML|insertAdjacentHTML|document\.write|sessionStorage|\beval\(/
  const product = sources.filter(({ path }) => !path.endsWith('.test.ts'))
  expect(product.filter(({ text }) => forbidden.test(text)).map(({ path }) => path)).toEqual([])
  const withStorage = product.filter(({ text }) => text.includes('localStorage')).map(({ path }) => path)
  expect(withStorage.sort()).toEqual(['src/lib/saved-queries.ts', 'src/lib/theme.ts'])
})
