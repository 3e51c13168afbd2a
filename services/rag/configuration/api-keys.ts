/**
 * The API keys of providers. The first source with a key is used: the endpoint itself, the key files of its pipeline,
 * of the defaults and of the server, the environment, the home directory.
 */
import type { Environment } from '../../configuration/declaration.ts'
import { type ReadFile, readNamedFile } from '../../configuration/secrets.ts'
import { isHeaderValue } from '../../http/headers.ts'

type Keyed = 'openai' | 'anthropic' | 'gemini' | 'voyage'

type KeyFiles = Readonly<Record<Keyed, string | undefined>>
export type ApiKeys = Readonly<Partial<Record<Keyed, string>>>
type Refuse = (name: string, rule: string) => void

const keyed: readonly Keyed[] = ['openai', 'anthropic', 'gemini', 'voyage']

export const isKeyed = (provider: string): provider is Keyed => keyed.some(one => one === provider)
export const isApiKey = (text: string): boolean => text !== '' && isHeaderValue(text)
export const apiKeyRule = 'must be a key of one line without control characters'

/** Reads the key files of one level. `table`: the level's name in the file. */
export function keysOfFiles(files: KeyFiles, table: string, readFile: ReadFile, refuse: Refuse): ApiKeys {
  const all = keyed.flatMap((provider): [Keyed, string][] => {
    const path = files[provider]
    if (path === undefined) return []
    const read = readNamedFile(path, readFile)
    const text = read.kind === 'text' ? read.text.trim() : ''
    if (read.kind === 'refused') refuse(`${table}.${provider}`, read.rule)
    else if (!isApiKey(text)) refuse(`${table}.${provider}`, `${apiKeyRule}, in its file`)
    else return [[provider, text]]
    return []
  })
  return Object.fromEntries(all)
}

/** Keys from the environment and the home directory. */
export function surroundingKeys(environment: Environment, readFile: ReadFile): ApiKeys {
  const all = keyed.flatMap((provider): [Keyed, string][] => {
    const apiKey = environment[`${provider.toUpperCase()}_API_KEY`]?.trim() || homeKey(provider, readFile)
    return apiKey !== undefined && isApiKey(apiKey) ? [[provider, apiKey]] : []
  })
  return Object.fromEntries(all)
}

function homeKey(provider: Keyed, readFile: ReadFile): string | undefined {
  const read = readNamedFile(`~/.${provider}-api-key`, readFile)
  return read.kind === 'text' ? read.text.trim() : undefined
}
