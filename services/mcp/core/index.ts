/**
 * The tool server without its transports: lists what each caller can call, and executes calls. A transport parses
 * messages, calls the core, and writes the core's results. The same core serves every MCP revision.
 */

import type { JsonObject } from '../../mcp-protocol/json.ts'
import { ToolFigures } from '../../mcp-protocol/tool-figures.ts'
import type { CallContext, Outcome } from './call.ts'
import type { Caller } from './caller.ts'
import type { Icon } from './content.ts'
import { CoreError } from './errors.ts'
import type { Prompt, PromptDefinition, PromptResult } from './prompt.ts'
import type { ReadResult, ResourceDefinition, ResourceProvider, ResourceTemplate } from './resource.ts'
import type { Tool, ToolDefinition, ToolResult } from './tool.ts'

type ServerInfo = {
  readonly name: string
  readonly title: string
  readonly version: string
  readonly icons?: readonly Icon[]
}

/** A change of a list or of a resource. The transports announce the change to clients. */
export type CoreChange =
  | { readonly kind: 'tools' | 'prompts' | 'resources' }
  | { readonly kind: 'resource'; readonly uri: string }

/** The prompt argument or template variable to complete. */
type CompletionRequest = {
  readonly ref: { readonly kind: 'prompt'; readonly name: string } | { readonly kind: 'template'; readonly uri: string }
  readonly argument: string
  readonly value: string
  readonly chosen: { readonly [name: string]: string }
}

export type Core = {
  readonly server: ServerInfo
  readonly toolFigures: ToolFigures
  instructions(caller: Caller): string
  /** Returns the tools that are not hidden, always in the same order. */
  tools(caller: Caller): readonly ToolDefinition[]
  /** Returns undefined if the caller has no tool with this name. */
  tool(name: string, caller: Caller): Tool | undefined
  /** @throws ArgumentsError, CoreError, or the abort reason of `context.signal` */
  callTool(name: string, args: JsonObject, context: CallContext): Promise<Outcome<ToolResult>>
  resources(caller: Caller): readonly ResourceDefinition[]
  templates(caller: Caller): readonly ResourceTemplate[]
  /** @throws CoreError */
  readResource(uri: string, context: CallContext): Promise<Outcome<ReadResult>>
  prompts(caller: Caller): readonly PromptDefinition[]
  /** @throws CoreError */
  getPrompt(
    name: string,
    args: { readonly [name: string]: string },
    context: CallContext,
  ): Promise<Outcome<PromptResult>>
  /** Returns at most 100 values, and the total number of values. @throws CoreError */
  complete(request: CompletionRequest, context: CallContext): Promise<{ values: readonly string[]; total: number }>
  /** Returns a function that removes the listener. */
  onChange(listener: (change: CoreChange) => void): () => void
  announce(change: CoreChange): void
  /**
   * Watches a resource for a caller. Listeners of `onChange` receive the resource's changes. Returns a function that
   * stops watching.
   */
  follow(uri: string, caller: Caller): () => void
}

type CoreParts = {
  readonly server: ServerInfo
  readonly instructions: (caller: Caller) => string
  readonly tools: readonly Tool[]
  readonly resources: readonly ResourceProvider[]
  readonly prompts: readonly Prompt[]
  /**
   * Watches a resource and announces the resource's changes. Returns a function that stops watching. Undefined if no
   * resource can change.
   */
  readonly follow?: (uri: string, caller: Caller) => () => void
}

const maximumCompletions = 100

function requireRead({ caller }: CallContext): void {
  if (!caller.scopes.has('mcp:read')) throw new CoreError({ kind: 'insufficient scope', scopes: ['mcp:read'] })
}

export function createCore({ server, instructions, tools, resources, prompts, follow }: CoreParts): Core {
  const byName = new Map(tools.map(tool => [tool.definition.name, tool]))
  const promptByName = new Map(prompts.map(prompt => [prompt.definition.name, prompt]))
  const listeners = new Set<(change: CoreChange) => void>()
  const toolFigures = new ToolFigures()
  const isFor = (tool: Tool, caller: Caller) => tool.isFor?.(caller) !== false
  const toolOf = (name: string, caller: Caller) => {
    const tool = byName.get(name)
    return tool !== undefined && isFor(tool, caller) ? tool : undefined
  }

  function promptOf(name: string): Prompt {
    const prompt = promptByName.get(name)
    if (prompt === undefined) throw new CoreError({ kind: 'unknown prompt', name })
    return prompt
  }

  async function candidates({ ref, argument, value, chosen }: CompletionRequest, context: CallContext) {
    if (ref.kind === 'prompt') return (await promptOf(ref.name).complete?.(argument, value, chosen, context)) ?? []
    const provider = resources.find(one =>
      one.templates(context.caller).some(({ uriTemplate }) => uriTemplate === ref.uri),
    )
    if (provider === undefined) throw new CoreError({ kind: 'unknown resource', uri: ref.uri })
    return (await provider.complete?.(ref.uri, argument, value, chosen, context)) ?? []
  }

  async function callTool(name: string, args: JsonObject, context: CallContext): Promise<Outcome<ToolResult>> {
    const tool = toolOf(name, context.caller)
    if (tool === undefined) throw new CoreError({ kind: 'unknown tool', name })
    const scope = tool.scopeOf(args)
    if (!tool.isOpen && !context.caller.scopes.has(scope))
      throw new CoreError({ kind: 'insufficient scope', scopes: [scope] })
    return tool.call(args, context)
  }

  return {
    server,
    toolFigures,
    instructions,
    tools: caller => tools.filter(tool => !tool.isHidden && isFor(tool, caller)).map(({ definition }) => definition),
    tool: toolOf,
    callTool: (name, args, context) =>
      toolFigures.count(
        () => callTool(name, args, context),
        outcome => outcome.kind === 'result' && outcome.result.isError === true,
      ),
    resources: caller => resources.flatMap(provider => provider.list(caller)),
    templates: caller => resources.flatMap(provider => provider.templates(caller)),
    readResource: async (uri, context) => {
      requireRead(context)
      for (const provider of resources) {
        const reading = provider.read(uri, context)
        if (reading !== undefined) return reading
      }
      throw new CoreError({ kind: 'unknown resource', uri })
    },
    prompts: () => prompts.map(({ definition }) => definition),
    getPrompt: async (name, args, context) => {
      requireRead(context)
      const prompt = promptOf(name)
      const missing = prompt.definition.arguments?.find(
        argument => argument.required && args[argument.name] === undefined,
      )
      if (missing) throw new CoreError({ kind: 'invalid params', problem: `arguments.${missing.name}: is required` })
      return prompt.get(args, context)
    },
    complete: async (request, context) => {
      requireRead(context)
      const found = await candidates(request, context)
      return { values: found.slice(0, maximumCompletions), total: found.length }
    },
    onChange: listener => {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    follow: follow ?? (() => () => {}),
    announce: change => {
      for (const listener of listeners) listener(change)
    },
  }
}
