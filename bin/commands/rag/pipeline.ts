/** Creates a pipeline for one command in this process, without a server. */
import { pino } from 'pino'
import { logLines } from '../../../services/process/log-lines.ts'
import type { PipelineSettings } from '../../../services/rag/configuration/types.ts'
import { RagError } from '../../../services/rag/errors.ts'
import { createPipeline } from '../../../services/rag/pipeline.ts'
import type { Pipeline } from '../../../services/rag/pipelines.ts'
import { parseQuery, type Query } from '../../../services/rag/request/body.ts'
import { logLevel, UsageError } from '../../command.ts'

/** Ignores all metrics, because a command does not publish them. */
const metrics = { stage: () => {}, tokens: () => {}, providerError: () => {} }

export const commandPipeline = (settings: PipelineSettings): Pipeline =>
  createPipeline(settings, { logger: pino({ level: logLevel('warn') }, logLines()), metrics, now: Date.now })

type QueryFlags = { readonly query: string; readonly topN?: number | undefined; readonly filter?: string | undefined }

/** Parses the query with the rules of the server's requests. @throws UsageError */
export function readQuery({ query, topN, filter }: QueryFlags): Query {
  try {
    return parseQuery({
      query,
      ...(topN !== undefined && { top_n: topN }),
      ...(filter !== undefined && { filter: readFilter(filter) }),
    })
  } catch (error) {
    if (error instanceof RagError) throw new UsageError(error.message)
    throw error
  }
}

function readFilter(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new UsageError(
      `--filter must be JSON, for example '{"conditions":[{"column":"source","operator":"=","value":"guide.md"}]}'`,
    )
  }
}
