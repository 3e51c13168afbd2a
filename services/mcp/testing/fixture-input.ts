/** Tools and a prompt that request input from the client: one request, several requests at once, or several rounds. */

import type { JsonObject, JsonSchema } from '../../mcp-protocol/json.ts'
import { isObject } from '../../mcp-protocol/json-rpc.ts'
import type { CallContext, InputKind, InputRequest, Outcome } from '../core/call.ts'
import { CoreError } from '../core/errors.ts'
import type { Prompt } from '../core/prompt.ts'
import { type Tool, type ToolResult, toolText } from '../core/tool.ts'
import { tool } from './fixture-tools.ts'

export const elicitation = (message: string, properties: JsonObject): InputRequest => ({
  method: 'elicitation/create',
  params: { message, requestedSchema: { type: 'object', properties, required: Object.keys(properties) } },
})
const sampling = (text: string): InputRequest => ({
  method: 'sampling/createMessage',
  params: { messages: [{ role: 'user', content: { type: 'text', text } }], maxTokens: 100 },
})
const roots: InputRequest = { method: 'roots/list', params: {} }
export const nameInput = elicitation('What is your name?', { name: { type: 'string' } })

type Requests = { readonly [key: string]: InputRequest }
type Responses = { readonly [key: string]: JsonObject }

/** Requests input until the client has answered everything, then returns a text made from the answers. */
const requiring =
  <Result>(requests: Requests, made: (responses: Responses, state: JsonObject | undefined) => Result) =>
  async (_: unknown, { answers }: CallContext): Promise<Outcome<Result>> => {
    const responses = answers?.responses ?? {}
    return Object.keys(requests).every(key => Object.hasOwn(responses, key))
      ? { kind: 'result', result: made(responses, answers?.state) }
      : { kind: 'input-required', requests, state: { token: 'kept' } }
  }
const text = (content: string): ToolResult => ({ content: [{ type: 'text', text: content }] })

/** The value of a form field that the user filled in. */
export const fieldOf = (response: JsonObject | undefined, name: string): unknown =>
  isObject(response?.content) ? response.content[name] : undefined

const greeting = (responses: Responses) => text(`Hello, ${fieldOf(responses.user_name, 'name')}!`)

async function multiRound(_: JsonObject, { answers }: CallContext): Promise<Outcome<ToolResult>> {
  const state = answers?.state ?? {}
  const responses = answers?.responses ?? {}
  if (responses.step1 !== undefined) {
    const name = String(fieldOf(responses.step1, 'name'))
    const requests = { step2: elicitation('Step 2: What is your favorite color?', { color: { type: 'string' } }) }
    return { kind: 'input-required', requests, state: { name } }
  }
  if (responses.step2 !== undefined && state.name !== undefined)
    return toolText(`${state.name} likes ${fieldOf(responses.step2, 'color')}`)
  const requests = { step1: elicitation('Step 1: What is your name?', { name: { type: 'string' } }) }
  return { kind: 'input-required', requests, state: {} }
}

/** Requests that the tool sends only if the client supports them. */
const byAbility: readonly (readonly [InputKind, string, InputRequest])[] = [
  ['elicitation-form', 'user_name', nameInput],
  ['sampling', 'greeting', sampling('Generate a greeting')],
  ['roots', 'client_roots', roots],
]

async function requestSupported(_: JsonObject, { inputKinds, answers }: CallContext): Promise<Outcome<ToolResult>> {
  const able = byAbility.filter(([ability]) => inputKinds.has(ability))
  if (answers !== undefined || able.length === 0) return toolText('nothing more to ask')
  return { kind: 'input-required', requests: Object.fromEntries(able.map(([, key, request]) => [key, request])) }
}

const message: JsonSchema = { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] }
const prompt: JsonSchema = { type: 'object', properties: { prompt: { type: 'string' } }, required: ['prompt'] }

/** Sends one request, which an argument chooses, and returns the client's answer. */
const repeating =
  (request: (args: JsonObject) => InputRequest, describe: (response: JsonObject) => string): Tool['call'] =>
  async (args, { answers }) => {
    const answer = answers?.responses.answer
    return answer === undefined
      ? { kind: 'input-required', requests: { answer: request(args) } }
      : toolText(describe(answer))
  }
const completed = ({ action, content }: JsonObject) =>
  `Elicitation completed: action=${action}, content=${JSON.stringify(content)}`

const defaults: JsonObject = {
  name: { type: 'string', default: 'John Doe' },
  age: { type: 'integer', default: 30 },
  score: { type: 'number', default: 95.5 },
  status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
  verified: { type: 'boolean', default: true },
}
const three = ['option1', 'option2', 'option3']
const titled = ['First', 'Second', 'Third'].map((title, index) => ({ const: `value${index + 1}`, title }))
const enums: JsonObject = {
  untitledSingle: { type: 'string', enum: three },
  titledSingle: { type: 'string', oneOf: titled },
  legacyEnum: {
    type: 'string',
    enum: ['opt1', 'opt2', 'opt3'],
    enumNames: ['Option One', 'Option Two', 'Option Three'],
  },
  untitledMulti: { type: 'array', items: { type: 'string', enum: three } },
  titledMulti: { type: 'array', items: { anyOf: titled } },
}

const confirmation = { ok: elicitation('Please confirm', { ok: { type: 'boolean' } }) }

export const inputTools: Tool[] = [
  tool('test_input_required_result_elicitation', requiring({ user_name: nameInput }, greeting)),
  tool(
    'test_input_required_result_sampling',
    requiring({ capital_question: sampling('What is the capital of France?') }, responses =>
      text(JSON.stringify(responses.capital_question?.content)),
    ),
  ),
  tool(
    'test_input_required_result_list_roots',
    requiring({ client_roots: roots }, responses => text(JSON.stringify(responses.client_roots?.roots))),
  ),
  tool(
    'test_input_required_result_request_state',
    requiring(confirmation, (_, state) => text(state?.token === 'kept' ? 'state-ok' : 'state lost')),
  ),
  tool(
    'test_input_required_result_multiple_inputs',
    requiring({ user_name: nameInput, greeting: sampling('Generate a greeting'), client_roots: roots }, greeting),
  ),
  tool('test_input_required_result_multi_round', multiRound),
  tool(
    'test_input_required_result_tampered_state',
    requiring(confirmation, () => text('confirmed')),
  ),
  tool('test_input_required_result_capabilities', requestSupported),
  tool('test_missing_capability', async (_, { inputKinds }) => {
    if (!inputKinds.has('sampling')) throw new CoreError({ kind: 'missing capability', required: { sampling: {} } })
    return toolText('sampling is there')
  }),
  tool('test_streaming_elicitation', async (_, context) => {
    context.progress({ progress: 1 })
    return toolText('streamed')
  }),
  tool(
    'test_sampling',
    repeating(
      args => sampling(String(args.prompt)),
      ({ content }) => `LLM response: ${isObject(content) ? content.text : ''}`,
    ),
    { inputSchema: prompt },
  ),
  tool(
    'test_elicitation',
    repeating(
      args =>
        elicitation(String(args.message), {
          username: { type: 'string', description: "User's response" },
          email: { type: 'string', description: "User's email address" },
        }),
      ({ action, content }) => `User response: action=${action}, content=${JSON.stringify(content)}`,
    ),
    { inputSchema: message },
  ),
  tool(
    'test_elicitation_sep1034_defaults',
    repeating(() => ({ ...elicitation('With defaults', defaults) }), completed),
  ),
  tool(
    'test_elicitation_sep1330_enums',
    repeating(() => elicitation('With choices', enums), completed),
  ),
]

export const inputPrompt: Prompt = {
  definition: { name: 'test_input_required_result_prompt', description: 'Fixture that asks.' },
  get: requiring(
    { user_context: elicitation('What context should the prompt use?', { context: { type: 'string' } }) },
    responses => ({
      messages: [
        {
          role: 'user' as const,
          content: { type: 'text' as const, text: String(fieldOf(responses.user_context, 'context')) },
        },
      ],
    }),
  ),
}
