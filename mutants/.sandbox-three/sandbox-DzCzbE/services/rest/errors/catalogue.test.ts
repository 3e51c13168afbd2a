/** One place words what the service says is wrong: whoever looks a code up finds all of it there. */
// @ts-nocheck

import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import * as catalogue from './catalogue.ts'

const folder = fileURLToPath(new URL('..', import.meta.url))
const product = globSync('**/*.ts', { cwd: folder }).filter(path => !path.endsWith('.test.ts'))

test('errors are made in the catalogue, and of what Postgres says', () => {
  const makers = product.filter(path => readFileSync(`${folder}/${path}`, 'utf8').includes('new RestError('))
  expect(makers.sort()).toEqual(['errors/catalogue.ts', 'errors/database.ts'])
})

test('each of the catalogue is one that something is refused with', () => {
  const users = product
    .filter(path => path !== 'errors/catalogue.ts')
    .map(path => readFileSync(`${folder}/${path}`, 'utf8'))
  const unused = Object.keys(catalogue).filter(maker => !users.some(text => text.includes(`${maker}(`)))
  expect(unused).toEqual([])
})
