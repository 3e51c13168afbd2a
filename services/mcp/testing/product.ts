/**
 * The tool server as the product starts it, with a database and the definitions of `conformance.yaml`. Code adds what
 * these definitions cannot express.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { readMcpSettings } from '../configuration/index.ts'
import type { McpSettings } from '../configuration/types.ts'
import type { CoreChange } from '../core/index.ts'
import { fixtureParts } from './fixture-core.ts'
import { taskDelayMs } from './fixture-tasks.ts'

const definitions = fileURLToPath(new URL('./conformance.yaml', import.meta.url))
/** The program that serves the product over standard input and output. */
export const productProgram = fileURLToPath(new URL('./product-stdio.ts', import.meta.url))

/** Settings of a server that every user of this machine may call. */
export const productSettings = (environment: Record<string, string | undefined>): McpSettings =>
  readMcpSettings({
    file: { path: 'conformance', text: `custom_definitions_path: ${JSON.stringify(definitions)}` },
    environment: { ESPALIER_AUTH_ENABLED: 'false', ESPALIER_HTTP_ADDRESS: '127.0.0.1:0', ...environment },
    flags: new Map(),
    readFile: path => readFileSync(path),
  })

/** The parts of the fixture that the custom definitions do not contain. */
export function productAdditions({ custom }: McpSettings) {
  const tools = new Set(custom?.tools.map(({ name }) => name))
  const prompts = new Set(custom?.prompts.map(({ name }) => name))
  return {
    taskDelayMs,
    additions: (announce: (change: CoreChange) => void) => {
      const parts = fixtureParts(announce, () => {})
      return {
        tools: parts.tools.filter(({ definition: { name } }) => !tools.has(name)),
        prompts: parts.prompts.filter(({ definition: { name } }) => !prompts.has(name)),
        resources: parts.resources.map(provider => ({
          ...provider,
          list: (...args: Parameters<typeof provider.list>) =>
            provider.list(...args).filter(({ uri }) => !custom?.resources.some(one => one.uri === uri)),
        })),
      }
    },
  }
}
