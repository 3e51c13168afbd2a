/**
 * `read_resource`: resources for clients that support only tools, from the same providers as `resources/read`.
 */

import { z } from 'zod'
import { fenced, fenceTokens } from '../../retrieval/fence.ts'
import { atMostTokens } from '../../tokens/at-most.ts'
import { suggestion } from '../catalogue/names.ts'
import type { McpSettings } from '../configuration/types.ts'
import type { CallContext, Outcome } from '../core/call.ts'
import type { Caller } from '../core/caller.ts'
import type { ResourceContents } from '../core/content.ts'
import { CoreError } from '../core/errors.ts'
import type { ResourceProvider } from '../core/resource.ts'
import { type Tool, type ToolDefinition, type ToolResult, toolError, toolText } from '../core/tool.ts'
import { isFailure } from '../resources/failure.ts'
import { optionalText, toolInput } from './input.ts'
import { line, pageOf, start } from './pages.ts'

type ReadResourceParts = {
  readonly resources: readonly ResourceProvider[]
  readonly limits: McpSettings['limits']
}

const input = toolInput({ uri: optionalText({ maxLength: 1_000 }), list: z.boolean().default(false) })

const definition: ToolDefinition = {
  name: 'read_resource',
  title: 'Read resource',
  description: 'Reads a resource such as pg://system_info, or lists all resources.',
  inputSchema: input.schema,
  annotations: { readOnlyHint: true, openWorldHint: false },
}

export function readResource({ resources, limits }: ReadResourceParts): Tool {
  const listed = (caller: Caller) =>
    resources.flatMap(provider => [
      ...provider.list(caller).map(({ uri, name, description }) => ({ uri, name, description })),
      ...provider
        .templates(caller)
        .map(({ uriTemplate, name, description }) => ({ uri: uriTemplate, name, description })),
    ])

  function listText(caller: Caller): string {
    const lines = listed(caller).map(({ uri, name, description = '' }) => line([uri, name, description]))
    return pageOf(
      [{ heading: line(['uri', 'name', 'description']), lines }],
      start,
      limits.resultTokens - fenceTokens,
      atMostTokens,
    ).text
  }

  async function read(uri: string, context: CallContext): Promise<Outcome<ToolResult>> {
    for (const provider of resources) {
      const reading = provider.read(uri, context)
      if (reading === undefined) continue
      const outcome = await reading
      return outcome.kind === 'result' ? shown(outcome.result.contents) : outcome
    }
    throw new CoreError({ kind: 'unknown resource', uri })
  }

  return {
    definition,
    scopeOf: () => 'mcp:read',
    async call(args, context) {
      const { uri, list } = input.read(args)
      if (list) return toolText(listText(context.caller))
      if (uri === undefined)
        return toolError('uri: pass the URI of a resource, or set list to true to list all resources.')
      try {
        return await read(uri, context)
      } catch (error) {
        if (!(error instanceof CoreError) || error.fault.kind !== 'unknown resource') throw error
        const uris = listed(context.caller).map(one => one.uri)
        return toolError(`uri: there is no resource ${uri} for this role.${suggestion(uri, uris)}`)
      }
    },
  }
}

/** Marks database contents as data, but not the server's own failure messages. */
function shown(contents: readonly ResourceContents[]): Outcome<ToolResult> {
  const isError = isFailure(contents)
  const content = contents.map(one =>
    'text' in one
      ? ({ type: 'text', text: isError ? one.text : fenced(one.text) } as const)
      : ({ type: 'resource', resource: one } as const),
  )
  return { kind: 'result', result: { content, ...(isError ? { isError } : {}) } }
}
