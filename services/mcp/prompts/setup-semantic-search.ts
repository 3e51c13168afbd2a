/** `setup-semantic-search`: searches by meaning for a question, and sets up what the search needs. */
import type { Prompt } from '../core/prompt.ts'
import { boundedArgument, quoted, userMessage } from './messages.ts'

const description = 'Search by meaning, and set up what is missing for it'

const textFor = (query: string) => `I want to search this database by meaning, for:

${quoted(query)}

1. Call get_schema_info with vector_tables_only true.
2. If there are tables with vector columns: choose the one whose text fits the question, say why, and call similarity_search with its name and the question as query_text. Begin with output_format summary; go on with full for what is promising. If the dimensions do not fit the embedding model, say which model the column was probably filled by.
3. If there are none: find tables with long text columns by get_schema_info. Then propose, as SQL for me to run: the extension (CREATE EXTENSION vector), a vector column of the dimensions that generate_embedding reports, how to fill it in batches, and an HNSW index for the distance in use. Answer the question meanwhile with full-text search (to_tsvector, websearch_to_tsquery).
4. Give the best hits with their keys, and say how sure you are that they answer the question.`

export const setupSemanticSearch: Prompt = {
  definition: {
    name: 'setup-semantic-search',
    title: 'Search by meaning',
    description,
    arguments: [{ name: 'query_text', description: 'What to search for, in words', required: true }],
  },
  get: async args => userMessage(description, textFor(boundedArgument(args, 'query_text'))),
}
