/**
 * Tools that the conformance suite expects: one for each kind of content, for errors, logs, progress and changes. Also
 * some tools for Espalier's own tests.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { JsonObject, JsonSchema } from '../../mcp-protocol/json.ts'
import type { CallContext } from '../core/call.ts'
import type { Content } from '../core/content.ts'
import { CoreError } from '../core/errors.ts'
import type { CoreChange } from '../core/index.ts'
import { type Tool, toolError, toolText } from '../core/tool.ts'
import { argumentsCheck } from '../custom/arguments.ts'

const noArguments: JsonSchema = { type: 'object', properties: {}, additionalProperties: false }

type Made = Partial<Omit<Tool, 'definition' | 'call'>> & { readonly inputSchema?: JsonSchema }

/** Creates a tool for callers that may read. */
export const tool = (name: string, call: Tool['call'], { inputSchema = noArguments, ...more }: Made = {}): Tool => {
  const check = argumentsCheck(inputSchema)
  return {
    definition: {
      name,
      title: name.replaceAll('_', ' '),
      description: `Fixture ${name}.`,
      inputSchema,
      annotations: { readOnlyHint: true },
    },
    scopeOf: () => 'mcp:read',
    call: (args, context) => {
      check(args)
      return call(args, context)
    },
    ...more,
  }
}

/** The smallest possible files of their types. */
export const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=='
const wav = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA='

const image: Content = { type: 'image', data: png, mimeType: 'image/png' }
const returning = (name: string, content: readonly Content[]) =>
  tool(name, async () => ({ kind: 'result', result: { content } }))

async function withProgress(_: JsonObject, context: CallContext) {
  for (const progress of [0, 50, 100]) {
    context.progress({ progress, total: 100, message: `Completed step ${progress} of 100` })
    await pause(20, undefined, { signal: context.signal })
  }
  return toolText('done')
}

async function withLogs(_: JsonObject, context: CallContext) {
  for (const text of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
    context.log('info', text)
    await pause(20, undefined, { signal: context.signal })
  }
  return toolText('logged')
}

const jsonSchema: JsonSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  $defs: {
    address: {
      $anchor: 'addressDef',
      type: 'object',
      properties: { street: { type: 'string' }, city: { type: 'string' } },
    },
  },
  properties: {
    name: { type: 'string' },
    address: { $ref: '#/$defs/address' },
    contactMethod: { type: 'string', enum: ['phone', 'email'] },
    phone: { type: 'string' },
    email: { type: 'string' },
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
  // biome-ignore lint/suspicious/noThenProperty: the name of a keyword of JSON Schema
  then: { required: ['phone'] },
  else: { required: ['email'] },
  additionalProperties: false,
}

const regionSchema: JsonSchema = {
  type: 'object',
  properties: {
    region: { type: 'string', 'x-mcp-header': 'Region' },
    shard: { type: 'integer', 'x-mcp-header': 'Shard' },
    strict: { type: 'boolean', 'x-mcp-header': 'Strict' },
    query: { type: 'string', minLength: 1, maxLength: 100 },
  },
  required: ['region'],
  additionalProperties: false,
}

/** `stopped` receives the names of cancelled calls. */
export const plainTools = (announce: (change: CoreChange) => void, stopped: (name: string) => void): Tool[] => [
  returning('test_simple_text', [{ type: 'text', text: 'This is a simple text response for testing.' }]),
  returning('test_image_content', [image]),
  returning('test_audio_content', [{ type: 'audio', data: wav, mimeType: 'audio/wav' }]),
  returning('test_embedded_resource', [
    {
      type: 'resource',
      resource: {
        uri: 'test://embedded-resource',
        mimeType: 'text/plain',
        text: 'This is an embedded resource content.',
      },
    },
  ]),
  returning('test_multiple_content_types', [
    { type: 'text', text: 'Multiple content types test:' },
    image,
    {
      type: 'resource',
      resource: {
        uri: 'test://mixed-content-resource',
        mimeType: 'application/json',
        text: '{"test":"data","value":123}',
      },
    },
  ]),
  tool('test_error_handling', async () => toolError('This tool intentionally returns an error for testing')),
  tool('test_tool_with_progress', withProgress),
  tool('test_tool_with_logging', withLogs),
  tool('test_logging_tool', withLogs),
  tool('test_trigger_tool_change', async () => {
    announce({ kind: 'tools' })
    return toolText('changed')
  }),
  tool('test_trigger_prompt_change', async () => {
    announce({ kind: 'prompts' })
    return toolText('changed')
  }),
  tool('test_reconnection', async (_, { signal }) => {
    await pause(50, undefined, { signal })
    return toolText('Reconnection test completed successfully')
  }),
  tool('json_schema_2020_12_tool', async args => toolText(JSON.stringify(args)), { inputSchema: jsonSchema }),
  tool('test_region', async ({ region }) => toolText(`in ${region}`), { inputSchema: regionSchema }),
  tool('test_write', async () => toolText('written'), { scopeOf: () => 'mcp:write' }),
  tool('test_failure', async () => {
    throw new Error('postgres://user:secret@host is of no business of the client')
  }),
  tool('test_whoami', async (_, { caller, address, traceparent }) =>
    toolText(JSON.stringify({ principal: caller.principal, address, traceparent })),
  ),
  tool('test_wait', async (_, { signal }) => {
    try {
      await pause(30_000, undefined, { signal })
    } catch {
      stopped('test_wait')
      throw signal.reason
    }
    return toolText('waited')
  }),
  tool('test_open', async (_, { caller }) => toolText(`open to ${caller.principal}`), {
    isHidden: true,
    isOpen: true,
  }),
  tool('test_refused', async () => {
    throw new CoreError({ kind: 'invalid params', problem: 'refused on purpose' })
  }),
]
