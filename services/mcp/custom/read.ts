/** Reads the file of own definitions. It returns all that is wrong at once, each with its key, its line and the rule, and never with the value. */
import { isNode, LineCounter, parseDocument } from 'yaml'
import type { Problem, Source } from '../../configuration/errors.ts'
import { ruleOf } from '../../configuration/rule.ts'
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
  /** Where in the file a key is, such as `tools[0].sql`. */
  sourceOf(key: string): Source
}

const mostCharacters = 1_048_576

export const noDefinitions: CustomDefinitions = {
  prompts: [],
  resources: [],
  tools: [],
  sourceOf: () => ({ kind: 'default' }),
}

const keyOf = (path: readonly PropertyKey[]): string =>
  path
    .map(part => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`))
    .join('')
    .replace(/^\./, '') || 'the file'

const pathOf = (key: string): (string | number)[] =>
  key
    .split(/[.[\]]+/)
    .filter(part => part !== '')
    .map(part => (/^\d+$/.test(part) ? Number(part) : part))

type Read = { readonly definitions: CustomDefinitions; readonly problems: readonly Problem[] }

export function readDefinitions(text: string, path: string): Read {
  const lines = new LineCounter()
  const at = (offset: number): Source => ({ kind: 'file', path, line: lines.linePos(offset).line })
  const wrong = (problems: readonly Problem[]): Read => ({ definitions: noDefinitions, problems })
  if (text.length > mostCharacters)
    return wrong([
      {
        key: 'the file',
        source: { kind: 'file', path, line: 1 },
        rule: `must have at most ${mostCharacters} characters`,
      },
    ])
  const document = parseDocument(text, { schema: 'core', logLevel: 'silent', uniqueKeys: true, lineCounter: lines })
  if (document.errors.length > 0)
    return wrong(
      document.errors
        .slice(0, 10)
        .map(({ code, pos }) => ({ key: 'the file', source: at(pos[0]), rule: `is not YAML (${code})` })),
    )
  /** Of the key itself, or of the nearest one around it that is there. */
  function sourceOf(key: string): Source {
    const parts = pathOf(key)
    for (let length = parts.length; length > 0; length--) {
      const node = document.getIn(parts.slice(0, length), true)
      if (isNode(node) && node.range) return at(node.range[0])
    }
    return at(0)
  }
  let value: unknown
  try {
    value = document.toJS({ maxAliasCount: 0 })
  } catch {
    return wrong([{ key: 'the file', source: at(0), rule: 'must not have aliases (*name)' }])
  }
  const file = withoutEmpty(value)
  const result = definitionsFile.safeParse(file, { error: ruleOf })
  const issues = [
    ...(result.error?.issues ?? []),
    ...repeatedIn(file).map(path => ({ path, message: 'is there twice' })),
  ]
  if (result.success && issues.length === 0) return { definitions: { ...result.data, sourceOf }, problems: [] }
  return wrong(
    issues.map(({ path: parts, message }) => {
      const key = keyOf(parts)
      return { key, source: sourceOf(key), rule: message }
    }),
  )
}

/** A key without a value is not given. */
const withoutEmpty = (value: unknown): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).filter(([, one]) => one !== null))
    : (value ?? {})
