/** The reference page of metrics and alerts: metrics as the sources register them, alerts as the chart's rules define them. */
import { parse } from 'yaml'
import { z } from 'zod'
import { cell, heading, table } from './markdown.ts'

export type Metric = { name: string; help: string; labels: string[] }

const literal = `('(?:[^'\\\\]|\\\\.)*'|"(?:[^"\\\\]|\\\\.)*")`
const unquoted = (text: string): string => text.slice(1, -1).replaceAll(/\\(.)/g, '$1')
/** `name:` (or a constant that has it) and `help:` of a metric of prom-client, and the names of its labels where they follow. */
const declared = new RegExp(
  `\\bname(?:: (?:\\w+\\.)?(\\w+|'[a-z0-9_]+'))?,\\s*help:\\s*${literal},?(?:\\s*labelNames: \\[([^\\]]*)\\])?`,
  'g',
)
/** A gauge that a helper registers: its name, then its help. */
const helped = new RegExp(`[gG]auge\\((?:registry, |registers, )?'([a-z]+_[a-z0-9_]+)',\\s*${literal}`, 'g')
const constant = /(\w+)(?: =|:) '([a-z]+_[a-z0-9_]+)'/g
const constants = /const \[([\w, ]+)\] = \[('[a-z0-9_]+'(?:, '[a-z0-9_]+')*)\]/g

/** Names of metrics that a source file keeps in constants. */
function constantsIn(source: string): Map<string, string> {
  const single = [...source.matchAll(constant)].map(([, key = '', name = '']): [string, string] => [key, name])
  const lists = [...source.matchAll(constants)].flatMap(([, keys = '', names = '']) => {
    const values = names.split(', ').map(unquoted)
    return keys.split(', ').map((key, index): [string, string] => [key, values[index] ?? ''])
  })
  return new Map([...single, ...lists])
}

/** The metrics that a source file registers with their help written out. */
export function metricsIn(source: string): Metric[] {
  const known = constantsIn(source)
  const found = [...source.matchAll(declared)].flatMap(([, key = 'name', help = '', labels = '']) => {
    const name = key.startsWith("'") ? unquoted(key) : known.get(key)
    const labelNames = [...labels.matchAll(/'([^']+)'/g)].map(([, label = '']) => label)
    return name === undefined ? [] : [{ name, help: unquoted(help), labels: labelNames }]
  })
  const gauges = [...source.matchAll(helped)].map(([, name = '', help = '']) => ({
    name,
    help: unquoted(help),
    labels: [],
  }))
  return [...found, ...gauges]
}

const rulesSchema = z.object({
  groups: z.array(
    z.object({
      rules: z.array(
        z.object({
          alert: z.string(),
          expr: z.string(),
          for: z.string().default('0s'),
          labels: z.object({ severity: z.string() }),
          annotations: z.object({ summary: z.string(), description: z.string() }),
        }),
      ),
    }),
  ),
})

const metricTable = (metrics: readonly Metric[]): string =>
  table(
    ['metric', 'labels', 'meaning'],
    metrics
      .toSorted((a, b) => (a.name < b.name ? -1 : 1))
      .map(({ name, help, labels }) => [`\`${name}\``, labels.map(label => `\`${label}\``).join(', '), cell(help)]),
  )

/** `parts`: a title, the address where its metrics are, and the metrics. `rules`: the texts of the chart's rule files. */
export function metricsPage(
  parts: readonly { title: string; where: string; metrics: readonly Metric[] }[],
  rules: readonly string[],
): string {
  const alerts = rules
    .flatMap(text => rulesSchema.parse(parse(text)).groups)
    .flatMap(group => group.rules)
    .map(({ alert, expr, for: pending, labels, annotations }) => [
      `\`${alert}\``,
      labels.severity,
      `\`${cell(expr.trim())}\`, for ${pending}`,
      cell(annotations.description),
    ])
  return [
    heading(1, 'Metrics and alerts'),
    '[Metrics and logs](../kubernetes.md#metrics-and-logs) describes how Prometheus reaches them. Counters end in `_total`; a histogram has `_bucket`, `_sum` and `_count`.',
    ...parts.flatMap(({ title, where, metrics }) => [heading(2, title), where, metricTable(metrics)]),
    heading(2, 'Alerts'),
    'The value `monitoring.databases.rules` of the chart installs them.',
    table(['alert', 'severity', 'condition', 'what to do'], alerts),
  ].join('\n\n')
}
