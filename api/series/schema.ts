/** Metrics as the API returns them. */
import { z } from 'zod'
import { serviceTypes } from '../../crds/index.ts'
import { queryDefault, queryTime } from '../schemas/common.ts'
import { output } from '../schemas/components.ts'
import { defaultInterval, interval } from './interval.ts'

const example = {
  name: 'connections',
  columns: ['time', 'active', 'idle'],
  values: [['2026-01-31T12:00:00.000Z', 2, 5]],
}

const series = output(
  'MetricSeries',
  z
    .strictObject({
      name: z.string().describe('The name of the series, such as `connections`.'),
      columns: z.array(z.string()).describe('The name of each value of a row. The first is `time`.'),
      values: z
        .array(z.array(z.union([z.string(), z.number(), z.null()])))
        .describe('A row for each interval with data, oldest first. Null: unknown.'),
    })
    .meta({ description: 'The values of one metric over time.', example }),
)

export const metricsShape = output(
  'MetricSeriesContainer',
  z
    .strictObject({ series: z.array(series).describe('Every series, including those without rows.') })
    .meta({ description: 'Metrics.', example: { series: [example] } }),
)

export const metricsQuery = z.strictObject({
  service: z.enum(serviceTypes).optional().describe('The service whose metrics to read. Omitted: Postgres.'),
  interval: interval
    .default(defaultInterval)
    .meta({ [queryDefault]: defaultInterval })
    .describe(
      'The interval of a row, such as `30 seconds`, `5,minutes` or `1 hour`. Rows start at multiples of it. There are at most 1000 rows.',
    ),
  start_time: queryTime.optional().describe('Only samples at or after this time; by default the last two hours.'),
  end_time: queryTime.optional().describe('Only samples before this time; by default now.'),
})
