/** `espalier rag ask`: asks a pipeline a question from the terminal, without a server. */
import { stopSignal } from '../../../server/signals.ts'
import { columnOf, rowKey } from '../../../services/rag/load/lookup.ts'
import type { Pipeline } from '../../../services/rag/pipelines.ts'
import type { Query } from '../../../services/rag/request/body.ts'
import type { FoundDocument } from '../../../services/rag/search/types.ts'
import { type Command, parseArguments, UsageError } from '../../command.ts'
import { integerOption, pipelineNamed } from './command.ts'
import { commandPipeline, readQuery } from './pipeline.ts'
import { type ShownSource, sourceLine } from './sources.ts'

const help = `Asks a pipeline a question, without a server, and prints the answer as it arrives.

Usage: espalier rag ask CONFIG PIPELINE "QUESTION" [options]

  --sources         print the answer's source documents after it, with their scores
  --retrieve-only   print only the documents, without calling the language model
  --top-n N         documents to retrieve, from 1 to 1000 (default: the pipeline's)
  --filter JSON     only rows that match, in the format of the server's requests:
                    '{"conditions":[{"column":"source","operator":"=","value":"guide.md"}]}'
  --json            print one JSON object: answer, sources (id, score, content, source), tokens_used

Exit code: 0 answered, 1 failed, 2 wrong usage, 130 stopped by Ctrl-C.`

const options = {
  sources: { type: 'boolean' },
  'retrieve-only': { type: 'boolean' },
  'top-n': { type: 'string' },
  filter: { type: 'string' },
  json: { type: 'boolean' },
} as const

/** Adds to each document the name of its source file, if `espalier rag load` loaded the document. */
async function shownSources(pipeline: Pipeline, documents: readonly FoundDocument[]): Promise<readonly ShownSource[]> {
  const { address, tables } = pipeline.settings
  const sources = documents.length === 0 ? new Map() : await columnOf(address, tables, 'source', documents)
  return documents.map(({ id, score, content, table }) => ({
    id,
    score,
    content,
    source: sources.get(rowKey({ table, id })),
  }))
}

async function answerQuery(pipeline: Pipeline, query: Query, flags: Flags, signal: AbortSignal): Promise<void> {
  const request = { query: query.query, filter: query.filter, topN: query.top_n ?? pipeline.settings.topN }
  const { documents, warnings, tokensUsed: ofSearch } = await pipeline.search(request, signal)
  for (const warning of warnings) console.error(`warning: ${warning}`)
  const question = { query: query.query, history: [], documents }
  if (flags.json) {
    const completion = flags.isRetrieval ? undefined : await pipeline.answer(question, signal)
    const sources = await shownSources(pipeline, documents)
    const tokens_used = ofSearch + (completion?.tokensUsed ?? 0)
    console.log(JSON.stringify({ answer: completion?.answer, sources, tokens_used }, undefined, 2))
    return
  }
  if (!flags.isRetrieval) {
    for await (const piece of pipeline.answerStream(question, signal)) process.stdout.write(printable(piece))
    process.stdout.write('\n')
  }
  if (!flags.isRetrieval && !flags.hasSources) return
  const sources = await shownSources(pipeline, documents)
  if (flags.hasSources && !flags.isRetrieval) console.log('\nSources:')
  if (sources.length === 0) console.log('no document was found')
  for (const [index, source] of sources.entries()) console.log(sourceLine(source, index + 1))
}

/** Removes control characters except tab and newline: a model must not send control sequences to the terminal. */
const printable = (text: string): string => text.replaceAll(/[^\P{Cc}\n\t]/gu, '')

type Flags = { readonly json: boolean; readonly isRetrieval: boolean; readonly hasSources: boolean }

const command: Command = {
  help,
  async run(args) {
    const { values, positionals } = parseArguments(args, options)
    const [config, name, question, ...others] = positionals
    const settings = pipelineNamed(config, name)
    if (question === undefined || others.length > 0)
      throw new UsageError('the question must be one argument, in quotes')
    const topN = values['top-n'] === undefined ? undefined : integerOption('--top-n', values['top-n'], 1, 1, 1_000)
    const query = readQuery({ query: question, topN, filter: values.filter })
    const stopping = new AbortController()
    void stopSignal().then(() => stopping.abort(new Error('stopped')))
    const pipeline = commandPipeline(settings)
    const flags = {
      json: values.json ?? false,
      isRetrieval: values['retrieve-only'] ?? false,
      hasSources: values.sources ?? false,
    }
    try {
      await answerQuery(pipeline, query, flags, stopping.signal)
      return 0
    } catch (error) {
      if (stopping.signal.aborted) return 130
      throw error
    } finally {
      await pipeline.close()
    }
  },
}
export default command
