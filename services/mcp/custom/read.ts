/**
 * Reads the file of custom definitions. Reports all errors at once. An error has its key, its line and the rule, but
 * never the value.
 */
import { type Document, nameOf, pathOf } from '../../configuration/document.ts'
import type { Problem } from '../../configuration/errors.ts'
import { ruleOf } from '../../configuration/rule.ts'
import { parseYaml } from '../../configuration/yaml.ts'
import {
  type CustomToolDefinition,
  definitionsFile,
  type PromptDefinition,
  type ResourceDefinition,
  repeatedIn,
} from './schema.ts'

export type CustomDefinitions = {
  readonly prompts: readonly PromptDefinition[]
  readonly resources: readonly ResourceDefinition[]
  readonly tools: readonly CustomToolDefinition[]
  readonly sourceOf: Document['sourceOf']
}

export const noDefinitions: CustomDefinitions = {
  prompts: [],
  resources: [],
  tools: [],
  sourceOf: () => ({ kind: 'default' }),
}

type Read = { readonly definitions: CustomDefinitions; readonly problems: readonly Problem[] }

export function readDefinitions(text: string, path: string): Read {
  const { root, problems, sourceOf } = parseYaml({ text, path })
  if (problems.length > 0) return { definitions: noDefinitions, problems }
  const file = withoutEmpty(root)
  const result = definitionsFile.safeParse(file, { error: ruleOf })
  const issues = [
    ...(result.error?.issues ?? []),
    ...repeatedIn(file).map(path => ({ path, message: 'is duplicated' })),
  ]
  if (result.success && issues.length === 0) return { definitions: { ...result.data, sourceOf }, problems: [] }
  const wrong = issues.map(({ path: keys, message }) => {
    const at = pathOf(keys)
    return { key: nameOf(at) || 'the file', source: sourceOf(at), rule: message }
  })
  return { definitions: noDefinitions, problems: wrong }
}

/** A key without a value counts as missing. */
const withoutEmpty = (root: Document['root']) =>
  Object.fromEntries(Object.entries(root).filter(([, one]) => one !== null))
