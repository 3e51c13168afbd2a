/** Checks that other files repeat the version of package.json only where npm, Helm or users need it. */
import { globSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import packageFile from './package.json' with { type: 'json' }
import { version as programVersion } from './server/version.ts'
import { product } from './services/rest/product.ts'

const { version } = packageFile
const textOf = (path: string) => readFileSync(new URL(path, import.meta.url), 'utf8')

/** Files that must contain the version. */
const versionFiles = [
  'package.json',
  'package-lock.json',
  'server.json',
  'CHANGELOG.md',
  ...globSync('charts/*/Chart.yaml'),
]
/** Files with versions of other software, which can be equal by chance. */
const otherVersionFiles = [
  'services/testing/embedding-model.ts',
  'e2e/clients/package-lock.json',
  'console/package-lock.json',
]

test('the programs report the version of package.json', () => {
  expect(version).toMatch(/^\d+\.\d+\.\d+(-[0-9a-z.]+)?$/)
  expect([programVersion, product]).toEqual([version, `espalier-rest/${version}`])
})

test('the package lock and the charts have the same version', () => {
  const lock = JSON.parse(textOf('package-lock.json'))
  expect([lock.version, lock.packages[''].version]).toEqual([version, version])
  const charts = globSync('charts/*/Chart.yaml').map(path => ({ path, ...parse(textOf(path)) }))
  expect(charts.length).toBeGreaterThan(1)
  for (const chart of charts) expect(chart, chart.path).toMatchObject({ version, appVersion: version })
})

test('the changelog has "Unreleased" first, and the version second', () => {
  const headings = [...textOf('CHANGELOG.md').matchAll(/^## \[([^\]]+)\]/gm)].map(([, heading]) => heading)
  expect(headings[0]).toBe('Unreleased')
  expect(headings.length === 1 || headings[1] === version).toBe(true)
})

test('no other file contains the version', () => {
  const pattern = new RegExp(`(?<![\\d.])${version.replaceAll('.', '\\.')}(?![\\d.])`)
  const files = globSync('**/*.{ts,mjs,md,yaml,tpl,json}', { exclude: path => /^(node_modules|\.)/.test(path) })
  expect(files.length).toBeGreaterThan(500)
  expect(
    files.filter(path => ![...versionFiles, ...otherVersionFiles].includes(path) && pattern.test(textOf(path))),
  ).toEqual([])
})
