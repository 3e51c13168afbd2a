/**
 * `generate_embedding`: the vector of a text, by the configured model. If the vector exceeds the token limit of a
 * result, the result has the vector's first numbers and a note.
 */
import { ProviderError } from '../../providers/errors.ts'
import type { Embedder } from '../../providers/types.ts'
import { atMostTokens } from '../../tokens/at-most.ts'
import type { McpSettings } from '../configuration/types.ts'
import { type Tool, type ToolDefinition, toolError, toolText } from '../core/tool.ts'
import { requiredText, toolInput } from './input.ts'

const input = toolInput({ text: requiredText({ minLength: 1, maxLength: 30_000 }) })

const definition: ToolDefinition = {
  name: 'generate_embedding',
  title: 'Generate embedding',
  description:
    'Returns the embedding vector of a text. To search a table by meaning use similarity_search, which needs no vector.',
  inputSchema: input.schema,
  annotations: { readOnlyHint: true, openWorldHint: true },
}

const tokensAround = 200
/** The number of significant digits of float32. */
const digits = 6

/** `embedder`: undefined if no provider is configured. A call then returns an error. */
export function generateEmbedding(embedder: Embedder | undefined, limits: McpSettings['limits']): Tool {
  return {
    definition,
    ...(embedder === undefined && { isHidden: true }),
    scopeOf: () => 'mcp:read',
    call: async (args, { signal }) => {
      const { text } = input.read(args)
      if (embedder === undefined) return toolError('No embedding provider is configured: embeddings need one.')
      try {
        const [vector = []] = await embedder.embed([text], 'document', signal)
        return toolText(written(embedder, text, vector, limits.resultTokens - tokensAround))
      } catch (error) {
        if (error instanceof ProviderError) return toolError(`The text could not be embedded: ${error.message}.`)
        throw error
      }
    },
  }
}

function written({ provider, model }: Embedder, text: string, vector: readonly number[], budget: number): string {
  const numbers = vector.map(number => String(Number(number.toPrecision(digits))))
  let remaining = budget
  let shown = 0
  for (const number of numbers) {
    // A comma follows each number.
    remaining -= atMostTokens(number) + 1
    if (remaining < 0) break
    shown++
  }
  const truncation =
    shown < numbers.length
      ? `\nThe first ${shown} of ${numbers.length} numbers: the complete vector exceeds the token limit of a result.`
      : ''
  return `Provider: ${provider}\nModel: ${model}\nDimensions: ${vector.length}\nText Length: ${text.length}\n\n[${numbers.slice(0, shown).join(',')}]${truncation}`
}
