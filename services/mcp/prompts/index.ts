/** The built-in prompts. */
import type { Prompt } from '../core/prompt.ts'
import { designSchema } from './design-schema.ts'
import { diagnoseQueryIssue } from './diagnose-query-issue.ts'
import { exploreDatabase } from './explore-database.ts'
import { setupSemanticSearch } from './setup-semantic-search.ts'

export const prompts: readonly Prompt[] = [exploreDatabase, setupSemanticSearch, diagnoseQueryIssue, designSchema]
