/** One place for the version: package.json. Whatever has to repeat it, since npm and Helm read it there, says the same. */
import { globSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import packageFile from './package.json' with { type: 'json' }
import { version as told } from './server/version.ts'
import { product } from './services/rest/product.ts'

const { version } = packageFile
const textOf = (path: string) => readFileSync(new URL(path, import.meta.url), 'utf8')

/** They have to state it, and are held to it here. */
const repeats = ['package.json', 'package-lock.json', 'server.json', 'CHANGELOG.md', ...globSync('charts/*/Chart.yaml')]
/** They state the version of something else, which may be the same. */
const others = ['services/testing/embedding-model.ts', 'e2e/clients/package-lock.json', 'console/package-lock.json']

test('the programs tell it', () => {
  expect(version).toMatch(/^\d+\.\d+\.\d+(-[0-9a-z.]+)?$/)
  expect([told, product]).toEqual([version, `espalier-rest/${version}`])
})

test('the lock and the charts repeat it', () => {
  const lock = JSON.parse(textOf('package-lock.json'))
  expect([lock.version, lock.packages[''].version]).toEqual([version, version])
  const charts = globSync('charts/*/Chart.yaml').map(path => ({ path, ...parse(textOf(path)) }))
  expect(charts.length).toBeGreaterThan(1)
  for (const chart of charts) expect(chart, chart.path).toMatchObject({ version, appVersion: version })
})

test('the changelog knows it, and says what is not in it yet above it', () => {
  const headings = [...textOf('CHANGELOG.md').matchAll(/^## \[([^\]]+)\]/gm)].map(([, heading]) => heading)
  expect(headings[0]).toBe('Unreleased')
  expect(headings.length === 1 || headings[1] === version).toBe(true)
})

test('nothing else states it', () => {
  const stated = new RegExp(`(?<![\\d.])${version.replaceAll('.', '\\.')}(?![\\d.])`)
  const files = globSync('**/*.{ts,mjs,md,yaml,tpl,json}', { exclude: path => /^(node_modules|\.)/.test(path) })
  expect(files.length).toBeGreaterThan(500)
  expect(files.filter(path => ![...repeats, ...others].includes(path) && stated.test(textOf(path)))).toEqual([])
})
