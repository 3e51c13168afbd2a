/** `search_knowledgebase`: the passages of the knowledge base that are nearest in meaning to a question. */

import { z } from 'zod'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import { ProviderError } from '../../providers/errors.ts'
import type { Embedder } from '../../providers/types.ts'
import { fenced, fenceTokens } from '../../retrieval/fence.ts'
import { atMostTokens } from '../../tokens/at-most.ts'
import { fencedNames, suggestion } from '../catalogue/names.ts'
import type { EmbeddingSettings, McpSettings } from '../configuration/types.ts'
import type { CallContext } from '../core/call.ts'
import { type Tool, type ToolDefinition, toolError, toolText } from '../core/tool.ts'
import type { KnowledgeBase } from '../knowledge/index.ts'
import { KnowledgeError, type KnowledgeFault, type KnowledgeHit, type Product } from '../knowledge/types.ts'
import { optionalText, toolInput } from './input.ts'
import { line, pageOf, shortened, shortenedToTokens, start } from './pages.ts'

export type KnowledgeParts = {
  readonly base: KnowledgeBase
  readonly embedder: Embedder
  /** The provider whose vectors are in the file. */
  readonly provider: EmbeddingSettings['provider']
}

const input = toolInput({
  query: optionalText({ maxLength: 8_000, description: 'Required, unless list_products is true' }),
  project_names: z.array(z.string()).max(50).optional(),
  project_versions: z.array(z.string()).max(50).optional(),
  top_n: z.int().min(1).max(20).default(5),
  list_products: z.boolean().default(false),
})

const definition: ToolDefinition = {
  name: 'search_knowledgebase',
  title: 'Search knowledge base',
  description:
    'Semantic search in the product documentation. list_products returns the names and versions for the filters.',
  inputSchema: input.schema,
  annotations: { readOnlyHint: true, openWorldHint: false },
}

const notConfigured = 'No knowledge base is configured.'
const tokensAround = 200
const fewestTokens = 50

function problemOf(fault: KnowledgeFault): string {
  switch (fault.kind) {
    case 'missing':
      return 'The file of the knowledge base is missing.'
    case 'invalid':
      return `The file of the knowledge base cannot be used: ${fault.problem}.`
    case 'no vectors':
      return `The knowledge base has no vectors of the configured provider ${fault.provider}.`
    case 'dimensions':
      return `The knowledge base has vectors of ${fault.stored} dimensions, but the configured model returns ${fault.requested}.`
    case 'busy':
      return 'Too many searches wait for the knowledge base. Try again in a moment.'
  }
}

/** Returns an error message about the first requested project or version that does not exist. */
function unknownOf(
  products: readonly Product[],
  projects: readonly string[],
  versions: readonly string[],
): string | undefined {
  const names = new Set(products.map(({ project }) => project))
  const project = projects.find(name => !names.has(name))
  if (project !== undefined) {
    const hint = suggestion(project, names) || ' list_products lists the projects.'
    return `project_names: there is no project ${JSON.stringify(shortened(project, 100))}.${hint}`
  }
  const known = new Set(
    products.filter(one => projects.length === 0 || projects.includes(one.project)).map(({ version }) => version),
  )
  const version = versions.find(name => !known.has(name))
  if (version === undefined) return undefined
  const some = [...known].slice(0, 20)
  return `project_versions: there is no version ${JSON.stringify(shortened(version, 100))}. Known versions:\n${fencedNames(some)}`
}

/** `parts`: undefined if no knowledge base is configured. A call then returns an error. */
export function searchKnowledgebase(parts: KnowledgeParts | undefined, { resultTokens }: McpSettings['limits']): Tool {
  async function answer({ base, embedder, provider }: KnowledgeParts, args: JsonObject, { signal }: CallContext) {
    const { query, top_n: limit, list_products, ...filters } = input.read(args)
    if (list_products) return toolText(listed(await base.products(signal), resultTokens))
    if (query === undefined) return toolError('query: is required, unless list_products is true.')
    const { project_names: projects = [], project_versions: versions = [] } = filters
    if (projects.length + versions.length > 0) {
      const unknown = unknownOf(await base.products(signal), projects, versions)
      if (unknown !== undefined) return toolError(unknown)
    }
    const [vector = []] = await embedder.embed([query], 'query', signal)
    const question = { provider, vector: Float32Array.from(vector), projects, versions, limit }
    return toolText(written(await base.search(question, signal), resultTokens - tokensAround - fenceTokens))
  }

  return {
    definition,
    ...(parts === undefined && { isHidden: true }),
    scopeOf: () => 'mcp:read',
    call: async (args, context) => {
      if (parts === undefined) return toolError(notConfigured)
      try {
        return await answer(parts, args, context)
      } catch (error) {
        if (error instanceof KnowledgeError) return toolError(problemOf(error.fault))
        if (error instanceof ProviderError) return toolError(`The question could not be embedded: ${error.message}.`)
        throw error
      }
    },
  }
}

function listed(products: readonly Product[], budget: number): string {
  const byProject = Map.groupBy(products, ({ project }) => project)
  const lines = [...byProject].map(([project, all]) =>
    line([project, all.map(({ version }) => version).join(', '), all.reduce((sum, { chunks }) => sum + chunks, 0)]),
  )
  const heading = line(['project_name', 'project_versions', 'chunks'])
  const { text, next } = pageOf([{ heading, lines }], start, budget - tokensAround, atMostTokens)
  return next === undefined ? text : `${text}\n${lines.length - next.line} more projects.`
}

function headOf({ project, version, title, section, path, similarity }: KnowledgeHit): string {
  const source = [...new Set([title, section, path].filter(one => one !== ''))].join(' / ')
  return line([`${project} ${version}`.trim(), shortened(source, 300), similarity.toFixed(3)])
}

/** Lists as many passages as fit the limit, the nearest first. The last passage may be truncated. */
function written(hits: readonly KnowledgeHit[], budget: number): string {
  if (hits.length === 0) return 'Nothing was found.'
  let remaining = budget
  const shown: string[] = []
  for (const [index, hit] of hits.entries()) {
    const head = `${index + 1}. ${headOf(hit)}\n`
    const passage = head + hit.text
    const tokens = atMostTokens(passage) + 2
    if (tokens <= remaining) {
      shown.push(passage)
      remaining -= tokens
      continue
    }
    const available = remaining - atMostTokens(head) - 2
    if (available >= fewestTokens) shown.push(head + shortenedToTokens(hit.text, available))
    break
  }
  const truncation =
    shown.length < hits.length ? ` ${hits.length - shown.length} more exceed the token limit of a result.` : ''
  return `${shown.length} passages.${truncation}\n\n${fenced(shown.join('\n\n'))}`
}
