/**
 * Checks whether the components of each pipeline respond. All clients share one check within some seconds, so that
 * health requests cost almost nothing at providers.
 */
import type { Pipeline, PipelineHealth, PipelineSet } from '../pipelines.ts'

const lifetimeMs = 10_000
const longestMs = 5_000

type NamedHealth = PipelineHealth & { readonly name: string }
type Health = { readonly status: 'healthy' | 'degraded'; readonly pipelines: readonly NamedHealth[] }

type Check = { readonly pipelines: readonly Pipeline[]; readonly result: Promise<Health>; readonly at: number }

const isSame = (one: readonly Pipeline[], other: readonly Pipeline[]) =>
  one.length === other.length && one.every((pipeline, index) => pipeline === other[index])

async function check(pipeline: Pipeline): Promise<NamedHealth> {
  const { name } = pipeline.settings
  const unknown = { reachable: false, error: `did not respond within ${longestMs / 1_000} s` }
  const late = new Promise<PipelineHealth>(resolve => {
    const timer = setTimeout(
      () => resolve({ embedding: unknown, completion: unknown, database: unknown }),
      longestMs + 500,
    )
    timer.unref()
  })
  const health = await Promise.race([pipeline.health(AbortSignal.timeout(longestMs)), late])
  return { name, ...health }
}

async function checkAll(pipelines: readonly Pipeline[]): Promise<Health> {
  const all = await Promise.all(pipelines.map(check))
  const isHealthy = all.every(({ embedding, completion, database }) =>
    [embedding, completion, database].every(({ reachable }) => reachable),
  )
  return { status: isHealthy ? 'healthy' : 'degraded', pipelines: all }
}

export class HealthChecks {
  readonly #set: PipelineSet
  readonly #now: () => number
  #last: Check | undefined

  constructor(set: PipelineSet, now: () => number) {
    this.#set = set
    this.#now = now
  }

  current(): Promise<Health> {
    const pipelines = this.#set.all()
    const now = this.#now()
    if (this.#last === undefined || now - this.#last.at >= lifetimeMs || !isSame(this.#last.pipelines, pipelines))
      this.#last = { pipelines, at: now, result: checkAll(pipelines) }
    return this.#last.result
  }
}
