/** Checks that all error texts of the service are in one file. */
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import * as catalogue from './catalogue.ts'

const folder = fileURLToPath(new URL('..', import.meta.url))
const product = globSync('**/*.ts', { cwd: folder }).filter(path => !path.endsWith('.test.ts'))

test('errors come from the catalogue, or from Postgres errors', () => {
  const makers = product.filter(path => readFileSync(`${folder}/${path}`, 'utf8').includes('new RestError('))
  expect(makers.sort()).toEqual(['errors/catalogue.ts', 'errors/database.ts'])
})

test('the service uses each error of the catalogue', () => {
  const users = product
    .filter(path => path !== 'errors/catalogue.ts')
    .map(path => readFileSync(`${folder}/${path}`, 'utf8'))
  const unused = Object.keys(catalogue).filter(maker => !users.some(text => text.includes(`${maker}(`)))
  expect(unused).toEqual([])
})

test('the table of docs/rest.md has every code with its statuses', () => {
  const page = readFileSync(new URL('../../../docs/rest.md', import.meta.url), 'utf8')
  const listed = [...page.matchAll(/^\| (RST\w+) \| (\d{3}) \| [^|]+\. \| [^|]*\|$/gm)].map(
    ([, code, status]) => `${code} ${status}`,
  )
  const source = readFileSync(`${folder}/errors/catalogue.ts`, 'utf8')
  const made = [
    ...[...source.matchAll(/status: (\d+),\s*code: '(RST\w+)'/g)].map(([, status, code]) => `${code} ${status}`),
    ...[...source.matchAll(/unavailable\('(RST\w+)'/g)].map(([, code]) => `${code} 503`),
  ]
  // The table would also lack errors that the patterns above do not find.
  const codes = new Set(source.match(/'RST\w+'/g))
  expect(new Set(made.map(pair => `'${pair.split(' ')[0]}'`))).toEqual(codes)
  expect(listed).toEqual([...new Set(made)].sort())
})
