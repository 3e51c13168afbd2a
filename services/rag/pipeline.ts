/** One pipeline of its parts: the searcher of its tables, and its providers. */
import type { Logger } from 'pino'
import type { PipelineSettings } from './configuration/types.ts'
import type { Pipeline } from './pipelines.ts'
import type { ProviderMetrics } from './server/metrics.ts'

export type PipelineParts = { readonly logger: Logger; readonly metrics: ProviderMetrics; readonly now: () => number }

export function createPipeline(settings: PipelineSettings, _parts: PipelineParts): Pipeline {
  throw new Error(`the pipeline ${settings.name} has no searcher yet`)
}
