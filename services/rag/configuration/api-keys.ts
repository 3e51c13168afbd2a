/** The API keys of providers. The first source that has one counts: the endpoint itself, the files of its pipeline, of the defaults, and of the whole server, the environment, the home folder. */
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

/** Reads the files of one level. `place` is the name of their table. */
export function keysOfFiles(files: KeyFiles, place: string, readFile: ReadFile, refuse: Refuse): ApiKeys {
  const all = keyed.flatMap((provider): [Keyed, string][] => {
    const path = files[provider]
    if (path === undefined) return []
    const read = readNamedFile(path, readFile)
    const text = read.kind === 'text' ? read.text.trim() : ''
    if (read.kind === 'refused') refuse(`${place}.${provider}`, read.rule)
    else if (!isApiKey(text)) refuse(`${place}.${provider}`, `${apiKeyRule}, in its file`)
    else return [[provider, text]]
    return []
  })
  return Object.fromEntries(all)
}

/** Keys that no file of configuration names. */
export function surroundingKeys(environment: Environment, readFile: ReadFile): ApiKeys {
  const all = keyed.flatMap((provider): [Keyed, string][] => {
    const given = environment[`${provider.toUpperCase()}_API_KEY`]?.trim() || homeKey(provider, readFile)
    return given !== undefined && isApiKey(given) ? [[provider, given]] : []
  })
  return Object.fromEntries(all)
}

function homeKey(provider: Keyed, readFile: ReadFile): string | undefined {
  const read = readNamedFile(`~/.${provider}-api-key`, readFile)
  return read.kind === 'text' ? read.text.trim() : undefined
}
