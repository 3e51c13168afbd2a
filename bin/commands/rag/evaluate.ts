/** `espalier rag evaluate`: measures a pipeline's retrieval quality, with judged queries. */
import { stopSignal } from '../../../server/signals.ts'
import type { PipelineSettings } from '../../../services/rag/configuration/types.ts'
import { armsOf } from '../../../services/rag/evaluate/arms.ts'
import { CollectionError, judgedQueries } from '../../../services/rag/evaluate/collection.ts'
import { evaluate, evaluationText } from '../../../services/rag/evaluate/evaluate.ts'
import { type Command, parseArguments, readFlagFile, UsageError } from '../../command.ts'
import { integerOption, pipelineNamed } from './command.ts'
import { commandPipeline } from './pipeline.ts'

const help = `Runs judged queries on a pipeline, without the language model. Prints how well each kind of search (words, vectors, both) finds
the relevant documents.

Usage: espalier rag evaluate CONFIG PIPELINE --queries FILE --judgements FILE [options]

  --queries FILE           JSON lines: {"id": "1", "text": "how high can it fly"}
  --judgements FILE        lines of query id, document id and score, tab-separated, with or without a header. Score above 0:
                           relevant, higher is better; 0 or unlisted: not relevant; below 0: not counted
  --document-column NAME   the column with the documents' names in the judgements (default: the column document, which load creates,
                           if the table has it; else the id column)
  --depth N                documents to retrieve for each query, from 10 to 1000 (default: 110)
  --parallel N             concurrent queries (default: 4)
  --json                   print one JSON object

Prints nDCG@10 (linear gain, as trec_eval), recall@10, recall@100 and MRR@10 for each search: words, vectors, both, and both with
reranking if configured. Prints the means with 95 % bootstrap intervals, and the differences per query. If a search finds several parts of
a document, the document counts once, at its best position.`

const options = {
  queries: { type: 'string' },
  judgements: { type: 'string' },
  'document-column': { type: 'string' },
  depth: { type: 'string' },
  parallel: { type: 'string' },
  json: { type: 'boolean' },
} as const

async function readCollection(queries: string | undefined, judgements: string | undefined) {
  if (queries === undefined || judgements === undefined) throw new UsageError('--queries and --judgements are required')
  try {
    return judgedQueries(await readFlagFile('--queries', queries), await readFlagFile('--judgements', judgements))
  } catch (error) {
    throw error instanceof CollectionError ? new UsageError(error.message) : error
  }
}

const command: Command = {
  help,
  async run(args) {
    const { values, positionals } = parseArguments(args, options)
    const [config, name, ...others] = positionals
    const settings: PipelineSettings = pipelineNamed(config, name)
    if (others.length > 0) throw new UsageError(`unexpected argument ${JSON.stringify(others[0])}`)
    const depth = integerOption('--depth', values.depth, 110, 10, 1_000)
    const parallel = integerOption('--parallel', values.parallel, 4, 1, 64)
    const queries = await readCollection(values.queries, values.judgements)
    const stopping = new AbortController()
    void stopSignal().then(() => stopping.abort(new Error('stopped')))
    const { signal } = stopping
    const arms = armsOf(settings, { make: commandPipeline, column: values['document-column'], depth, signal })
    try {
      const screen = process.stderr
      const onProgress = (done: number, all: number) => {
        if (screen.isTTY) screen.write(done === all ? '\r\x1b[K' : `\r${done}/${all} queries`)
      }
      const evaluation = await evaluate(queries, arms.all, { parallel, onProgress, signal })
      console.log(values.json ? JSON.stringify(evaluation, undefined, 2) : evaluationText(evaluation))
      return evaluation.arms.some(({ failures }) => failures.length > 0) ? 1 : 0
    } catch (error) {
      if (signal.aborted) return 130
      throw error
    } finally {
      await arms.close()
    }
  },
}
export default command
