/** All tools of a configuration, in the order of the list. */
import { createEmbedder } from '../../providers/embedding.ts'
import type { Catalogue } from '../catalogue/index.ts'
import type { McpSettings } from '../configuration/types.ts'
import type { ResourceProvider } from '../core/resource.ts'
import type { Tool } from '../core/tool.ts'
import type { Logins } from '../credentials/accounts.ts'
import { CustomTool } from '../custom/tools.ts'
import type { DatabaseEntries } from '../database/entries.ts'
import type { Databases } from '../database/index.ts'
import { createKnowledgeBase } from '../knowledge/index.ts'
import { adviseIndexes } from './advise-indexes.ts'
import { authenticateUser } from './authenticate-user.ts'
import { checkHealth } from './check-health.ts'
import { createConfirmations } from './confirmation.ts'
import { countRows } from './count-rows.ts'
import { createCursors } from './cursor.ts'
import { executeExplain } from './execute-explain.ts'
import { generateEmbedding } from './generate-embedding.ts'
import { getSchemaInfo } from './get-schema-info.ts'
import { queryDatabase } from './query-database.ts'
import { readResource } from './read-resource.ts'
import { type KnowledgeParts, searchKnowledgebase } from './search-knowledgebase.ts'
import { similaritySearch } from './similarity-search.ts'
import { topQueries } from './top-queries.ts'

type ToolParts = {
  readonly settings: McpSettings
  readonly entries: DatabaseEntries
  readonly databases: Databases
  readonly catalogue: Catalogue
  readonly resources: readonly ResourceProvider[]
  /** Undefined if users cannot log in. */
  readonly logins: Logins | undefined
  readonly now: () => number
}

/** Opens nothing yet: each query opens the knowledge base file. */
function knowledgeOf({ knowledgebase }: McpSettings): KnowledgeParts | undefined {
  if (knowledgebase === undefined) return undefined
  const { path, embedding } = knowledgebase
  return { base: createKnowledgeBase({ path }), embedder: createEmbedder(embedding), provider: embedding.provider }
}

/** @throws ProviderError if a provider's base URL is invalid */
export function createTools({ settings, entries, databases, catalogue, resources, logins, now }: ToolParts): Tool[] {
  const { limits, disabled, sealingKey, custom } = settings
  const confirmations = createConfirmations(sealingKey, now)
  const query = { entries, databases, catalogue, limits }
  const readParts = { entries, access: databases, limits }
  const embedder = settings.embedding && createEmbedder(settings.embedding)
  const tools = [
    queryDatabase(query, confirmations, createCursors(sealingKey, now)),
    executeExplain(query),
    getSchemaInfo({ ...readParts, catalogue }),
    countRows(query),
    similaritySearch({ ...readParts, embedder }),
    generateEmbedding(embedder, limits),
    searchKnowledgebase(knowledgeOf(settings), limits),
    readResource({ resources, limits }),
    checkHealth(readParts),
    topQueries(readParts),
    adviseIndexes({ ...readParts, catalogue, statements: databases }),
    ...(logins === undefined ? [] : [authenticateUser(logins)]),
  ]
  return [
    ...tools.filter(({ definition: { name } }) => !disabled.has(name)),
    ...(custom?.tools ?? []).map(tool => new CustomTool(tool, { entries, databases, limits }, confirmations)),
  ]
}
