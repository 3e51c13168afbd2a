import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { version } from '../server/version.ts'

test.each(['espalier', 'espalier-csi'])('chart %s is of the version that package.json says', chart => {
  const { version: ofChart, appVersion } = parse(readFileSync(join(import.meta.dirname, chart, 'Chart.yaml'), 'utf8'))
  expect([ofChart, appVersion]).toEqual([version, version])
})
