/** The newest sample as OpenMetrics text (specification 1.0), for Prometheus. Unknown values are omitted. */
import { idLabel, measureNames, measures, metricName, type Sample } from './measures.ts'

export const contentType = 'application/openmetrics-text; version=1.0.0; charset=utf-8'

/** `id`: a UUID, which needs no escape. */
export function exposition(id: string, sample: Sample | undefined): string {
  const families = measureNames.flatMap(measure => {
    const value = sample?.values[measure] ?? null
    if (value === null) return []
    const { type, help } = measures[measure]
    const name = metricName(measure)
    const family = type === 'counter' ? name.replace(/_total$/, '') : name
    return [`# TYPE ${family} ${type}`, `# HELP ${family} ${help}`, `${name}{${idLabel}="${id}"} ${value}`]
  })
  return `${[...families, '# EOF'].join('\n')}\n`
}
