/**
 * The core for the conformance suite and for Espalier's own tests. It has tools, resources and prompts with the suite's
 * names, and no database.
 */
import { CoreError } from '../core/errors.ts'
import { type Core, type CoreChange, createCore } from '../core/index.ts'
import type { Prompt } from '../core/prompt.ts'
import type { ReadResult, ResourceProvider } from '../core/resource.ts'
import type { Tool } from '../core/tool.ts'
import { inputPrompt, inputTools } from './fixture-input.ts'
import { taskTools } from './fixture-tasks.ts'
import { plainTools, png } from './fixture-tools.ts'

const contents: Record<string, ReadResult['contents'][number]> = {
  'test://static-text': {
    uri: 'test://static-text',
    mimeType: 'text/plain',
    text: 'This is the content of the static text resource.',
  },
  'test://static-binary': { uri: 'test://static-binary', mimeType: 'image/png', blob: png },
  'test://watched-resource': { uri: 'test://watched-resource', mimeType: 'text/plain', text: 'Watched.' },
}

const definitions = Object.values(contents).map(({ uri, mimeType }) => ({
  uri,
  name: uri.slice('test://'.length),
  ...(mimeType === undefined ? {} : { mimeType }),
}))
const template = { uriTemplate: 'test://template/{id}/data', name: 'template', mimeType: 'application/json' }
const templates = [template]

const resources: ResourceProvider = {
  list: () => definitions,
  templates: () => templates,
  read: uri => {
    const known = Object.hasOwn(contents, uri) ? contents[uri] : undefined
    if (known !== undefined) return Promise.resolve({ kind: 'result', result: { contents: [known] } })
    const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1]
    if (id === undefined) return undefined
    if (id === 'missing') return Promise.reject(new CoreError({ kind: 'unknown resource', uri }))
    const text = JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` })
    return Promise.resolve({ kind: 'result', result: { contents: [{ uri, mimeType: 'application/json', text }] } })
  },
  complete: async (_, __, value) => ['1', '12', '123'].filter(id => id.startsWith(value)),
}

/** Resources for more than one page of a list. */
export const manyResources = (count: number): ResourceProvider => {
  const list = Array.from({ length: count }, (_, index) => ({ uri: `many://${index}`, name: `resource ${index}` }))
  return { list: () => list, templates: () => [], read: () => undefined }
}

const userText = (text: string) => ({ role: 'user' as const, content: { type: 'text' as const, text } })
const named = (name: string, args: readonly string[] = []): Prompt['definition'] => ({
  name,
  description: `Fixture ${name}.`,
  arguments: args.map(arg => ({ name: arg, description: `Fixture ${arg}.`, required: true })),
})

const prompts: Prompt[] = [
  {
    definition: named('test_simple_prompt'),
    get: async () => ({ kind: 'result', result: { messages: [userText('This is a simple prompt for testing.')] } }),
  },
  {
    definition: named('test_prompt_with_arguments', ['arg1', 'arg2']),
    get: async ({ arg1, arg2 }) => ({
      kind: 'result',
      result: { messages: [userText(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)] },
    }),
    complete: async (argument, value) =>
      (argument === 'arg1' ? ['testValue1', 'testValue2'] : []).filter(one => one.startsWith(value)),
  },
  {
    definition: named('test_prompt_with_embedded_resource', ['resourceUri']),
    get: async ({ resourceUri = '' }) => ({
      kind: 'result',
      result: {
        messages: [
          {
            role: 'user',
            content: {
              type: 'resource',
              resource: {
                uri: resourceUri,
                mimeType: 'text/plain',
                text: 'Embedded resource content for testing.',
              },
            },
          },
          userText('Please process the embedded resource above.'),
        ],
      },
    }),
  },
  {
    definition: named('test_prompt_with_image'),
    get: async () => ({
      kind: 'result',
      result: {
        messages: [
          { role: 'user', content: { type: 'image', data: png, mimeType: 'image/png' } },
          userText('Please analyze the image above.'),
        ],
      },
    }),
  },
  inputPrompt,
]

export type FixtureOptions = {
  /** The function receives the names of tools whose calls were cancelled. */
  readonly stopped?: (name: string) => void
  readonly more?: readonly ResourceProvider[]
}

type FixtureParts = {
  readonly tools: readonly Tool[]
  readonly resources: readonly ResourceProvider[]
  readonly prompts: readonly Prompt[]
}

/** The fixture's tools, resources and prompts, for the fixture's own core or in addition to the product's. */
export const fixtureParts = (
  announce: (change: CoreChange) => void,
  stopped: (name: string) => void,
): FixtureParts => ({
  tools: [...plainTools(announce, stopped), ...inputTools, ...taskTools],
  resources: [resources],
  prompts,
})

export function fixtureCore({ stopped = () => {}, more = [] }: FixtureOptions = {}): Core {
  const parts = fixtureParts(change => core.announce(change), stopped)
  const core: Core = createCore({
    server: { name: 'espalier-fixture', title: 'Fixture', version: '1.0.0' },
    instructions: () => 'Call what you like.',
    ...parts,
    resources: [...parts.resources, ...more],
  })
  return core
}
