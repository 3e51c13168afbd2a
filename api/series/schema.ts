/** Metrics as the API gives them. */
import { z } from 'zod'
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
      name: z.string().describe('What it is about, such as `connections`.'),
      columns: z.array(z.string()).describe('What stands in each place of a row. The first is `time`.'),
      values: z
        .array(z.array(z.union([z.string(), z.number(), z.null()])))
        .describe('A row for each interval of which something is known, oldest first. Null: not known.'),
    })
    .meta({ description: 'What was measured of one thing, by time.', example }),
)

export const metricsShape = output(
  'MetricSeriesContainer',
  z
    .strictObject({ series: z.array(series).describe('Every series, also one without rows.') })
    .meta({ description: 'Metrics.', example: { series: [example] } }),
)

export const metricsQuery = z.strictObject({
  interval: interval
    .default(defaultInterval)
    .meta({ [queryDefault]: defaultInterval })
    .describe(
      'What a row stands for, such as `30 seconds`, `5,minutes` or `1 hour`. Rows begin at multiples of it. There are at most 1000 of them.',
    ),
  start_time: queryTime.optional().describe('Only what was measured at this time and later; two hours by default.'),
  end_time: queryTime.optional().describe('Only what was measured before this time; now by default.'),
})
