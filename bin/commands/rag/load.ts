/** `espalier rag load`: loads documents into the table of a pipeline. */

import { stopSignal } from '../../../server/signals.ts'
import { type Address, connectionAddress } from '../../../services/postgres/address.ts'
import type { PipelineSettings, TableSettings } from '../../../services/rag/configuration/types.ts'
import { sourceFiles } from '../../../services/rag/load/documents/files.ts'
import { loadingEmbedder } from '../../../services/rag/load/embedder.ts'
import { type LoadFigures, load } from '../../../services/rag/load/load.ts'
import { type Command, parseArguments, UsageError } from '../../command.ts'
import { integerOption, pipelineNamed } from './command.ts'
import { Progress, summary } from './load-progress.ts'

const help = `Loads documents into the table of a pipeline: splits them, embeds the parts, and creates the table and its indexes if missing.

Usage: espalier rag load CONFIG PIPELINE FILES... [options]

FILES are files or directories: Markdown, HTML, text, CSV (one document per row), and JSON lines ({"id", "title", "text"}). In directories,
files of other formats, and names that begin with a dot, are skipped. Only changed documents are embedded again. To resume a stopped
load, run it again.

  --table NAME         the table to load, if the pipeline has several
  --tokens N           approximate tokens of a part of a document (default: 400)
  --batch N            parts in one request to the embedding model (default: 32)
  --parallel N         concurrent requests (default: 4)
  --language NAME      text-search configuration of a new table (default: english)
  --halfvec            store the vectors of a new table in half precision
  --prune              delete documents that are not among FILES
  --replace            replace all documents of the table with FILES, also those that another embedding model embedded
  --database-url URL   load with this role and address instead of the pipeline's. Without it, PGUSER and PGPASSWORD replace the
                       pipeline's role

Exit code: 0 loaded, 1 failed, 2 wrong usage, 130 stopped by Ctrl-C.`

/** Returns the address for the load, which must write: the role of the pipeline may be read-only. */
function loadingAddress({ address }: PipelineSettings, url: string | undefined): Address {
  if (url !== undefined) return connectionAddress(url)
  const { PGUSER: user, PGPASSWORD: password } = process.env
  return user ? { ...address, user, password } : address
}

function tableNamed({ name, tables }: PipelineSettings, named: string | undefined): TableSettings {
  const isNamed = (table: TableSettings) => named === table.name || named === `${table.schema}.${table.name}`
  const [table, ...others] = named === undefined ? tables : tables.filter(isNamed)
  if (table !== undefined && others.length === 0) return table
  const known = tables.map(one => one.name).join(', ')
  throw new UsageError(
    named === undefined
      ? `--table is missing: the pipeline ${JSON.stringify(name)} has several: ${known}`
      : `--table: unknown table of the pipeline ${JSON.stringify(name)}; known tables: ${known}`,
  )
}

const options = {
  table: { type: 'string' },
  tokens: { type: 'string' },
  batch: { type: 'string' },
  parallel: { type: 'string' },
  language: { type: 'string' },
  halfvec: { type: 'boolean' },
  prune: { type: 'boolean' },
  replace: { type: 'boolean' },
  'database-url': { type: 'string' },
} as const

const command: Command = {
  help,
  async run(args) {
    const { values, positionals } = parseArguments(args, options)
    const [config, name, ...names] = positionals
    const pipeline = pipelineNamed(config, name)
    if (names.length === 0) throw new UsageError('FILES are missing; --help lists the formats')
    const limits = {
      maximumTokens: integerOption('--tokens', values.tokens, 400, 16, 8_192),
      batchSize: integerOption('--batch', values.batch, 32, 1, 2_048),
      parallel: integerOption('--parallel', values.parallel, 4, 1, 64),
    }
    const table = tableNamed(pipeline, values.table)
    const files = await sourceFiles(names, process.cwd())
    const stopping = new AbortController()
    void stopSignal().then(() => stopping.abort(new Error('stopped')))
    const progress = new Progress(process.stderr, files)
    try {
      const { figures, warnings } = await load({
        ...limits,
        address: loadingAddress(pipeline, values['database-url']),
        table,
        embedder: loadingEmbedder(pipeline.embedding),
        files,
        prune: values.prune ?? false,
        replace: values.replace ?? false,
        halfPrecision: values.halfvec ?? false,
        language: values.language ?? 'english',
        lockWaitMs: 5_000,
        onProgress: (figures: Readonly<LoadFigures>, step) => progress.show(figures, step),
        signal: stopping.signal,
      })
      progress.end()
      for (const warning of warnings) console.error(`warning: ${warning}`)
      console.log(summary(figures, progress.seconds))
      return 0
    } catch (error) {
      progress.end()
      if (!stopping.signal.aborted) throw error
      console.error('stopped; run the same command again to continue')
      return 130
    }
  },
}
export default command
