/** `make reference`: writes the pages of docs/reference that are generated. */
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { refusalReasons } from '../api/errors.ts'
import { definitionOf } from '../crds/definition.ts'
import { declarations } from '../crds/index.ts'
import { measures } from '../instance/agent/measures.ts'
import { apiErrorsPage } from './api-errors.ts'
import { chartValuesPage } from './chart-values.ts'
import { type Metric, metricsIn, metricsPage } from './metrics.ts'
import { resourcesPage } from './resources.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const sourcesIn = (folders: readonly string[]): string[] =>
  folders.flatMap(folder =>
    globSync(`${folder}/**/*.ts`, { cwd: root }).filter(path => !/\.test\.ts$|\/testing\//.test(path)),
  )

const metricsOf = (...folders: string[]): Metric[] =>
  sourcesIn(folders)
    .toSorted()
    .flatMap(path => metricsIn(read(path)))

const metricParts = () => [
  {
    title: 'Operator, API, gateway and archive',
    where: 'Port 8080 of each pod. HAProxy has its own metrics on port 8405.',
    metrics: metricsOf('api', 'archive', 'controller', 'gateway', 'operator', 'cluster', 'server'),
  },
  {
    title: 'Databases and branches',
    where:
      'The agent beside each Postgres serves them. Each has the label `espalier_id`, the id of the database or branch.',
    metrics: Object.entries(measures).map(([name, { type, help }]) => ({
      name: `espalier_postgres_${name}${type === 'counter' ? '_total' : ''}`,
      help,
      labels: [],
    })),
  },
  {
    title: 'Services',
    where: 'The admin port of each server has them at `/metrics`.',
    metrics: metricsOf('services'),
  },
]

/** Path below docs/reference to text. */
export function generatedPages(): Map<string, string> {
  const header = '<!-- Written by `make reference`; do not edit. -->\n\n'
  const charts = ['espalier', 'espalier-csi'].map(name => ({ name, text: read(`charts/${name}/values.yaml`) }))
  const rules = globSync('charts/espalier/rules/*.yaml', { cwd: root }).toSorted().map(read)
  const pages = {
    'resources.md': resourcesPage(Object.values(declarations).map(definitionOf)),
    'chart-values.md': chartValuesPage(charts),
    'metrics.md': metricsPage(metricParts(), rules),
    'api-errors.md': apiErrorsPage(refusalReasons, sourcesIn(['api']).toSorted().map(read)),
  }
  return new Map(Object.entries(pages).map(([name, text]) => [name, `${header}${text}\n`]))
}

export const referenceDirectory = join(root, 'docs/reference')

if (import.meta.main) {
  mkdirSync(referenceDirectory, { recursive: true })
  for (const [name, text] of generatedPages()) writeFileSync(join(referenceDirectory, name), text)
}
