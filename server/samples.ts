/** Samples of a service: metrics that its servers record and the API reads (ADR 0086). */

/** The ports for samples of a service's pod, over plain HTTP. Only the API can connect to them. */
export const samplesPorts = { first: 8433, second: 8434 } as const
export const samplesPath = '/samples'
/** A container with samples has a port whose name matches this pattern. */
export const samplesPortPattern = /^([a-z]+-)?samples$/

export const serviceSampleEveryMs = 30_000
/** The number of samples in two hours. */
export const retainedServiceSamples = 240

/** The upper bounds of the duration buckets, in seconds. One more bucket counts durations above the last bound. */
export const durationBounds = [
  ...[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5],
  ...[1, 2.5, 5, 10, 30, 60],
] as const

/**
 * The requests whose duration is at most the bound with this index and more than the previous bound. For the last
 * index: more than all bounds.
 */
export const durationName = (index: number): `duration_${string}` =>
  `duration_${index < durationBounds.length ? `to_${durationBounds[index]}` : 'over'}`

export const durationNames: readonly string[] = Array.from({ length: durationBounds.length + 1 }, (_, index) =>
  durationName(index),
)

/** Metrics of every server. Requests, durations and CPU time are counters since the start of the process. */
export const commonMeasures = [
  ...['requests_2xx', 'requests_3xx', 'requests_4xx', 'requests_5xx', 'in_progress'],
  ...['memory_bytes', 'cpu_seconds'],
] as const

/** Additional metrics of a service. */
export const ownMeasures = {
  mcp: ['sessions', 'tool_calls', 'tool_failures'],
  rest: ['pool_size', 'pool_in_use', 'pool_waiting', 'pool_timeouts'],
  rag: [
    ...(['tokens_embedding', 'tokens_rerank', 'tokens_prompt', 'tokens_completion', 'provider_errors'] as const),
    ...(['pool_size', 'pool_in_use', 'pool_waiting'] as const),
  ],
} as const

export type SampledService = keyof typeof ownMeasures
export type OwnFigures<Service extends SampledService> = Readonly<Record<(typeof ownMeasures)[Service][number], number>>

/** `samples`: rows, oldest first, each with the time in milliseconds and then a value for each name. */
export type SamplesAnswer = { id: string; names: readonly string[]; samples: readonly (readonly number[])[] }
