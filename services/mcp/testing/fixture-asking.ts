/** Tools and a prompt that ask the client for something, in one round, several at once, or over several rounds. */

import type { JsonObject, JsonSchema } from '../../mcp-protocol/json.ts'
import { isObject } from '../../mcp-protocol/json-rpc.ts'
import type { Ability, CallContext, InputRequest, Outcome } from '../core/call.ts'
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
export const nameAsked = elicitation('What is your name?', { name: { type: 'string' } })

type Requests = { readonly [key: string]: InputRequest }
type Responses = { readonly [key: string]: JsonObject }

/** Asks until everything is answered, then says what is made of it. */
const asking =
  <Result>(requests: Requests, made: (responses: Responses, state: JsonObject | undefined) => Result) =>
  async (_: unknown, { answers }: CallContext): Promise<Outcome<Result>> => {
    const responses = answers?.responses ?? {}
    return Object.keys(requests).every(key => Object.hasOwn(responses, key))
      ? { kind: 'result', result: made(responses, answers?.state) }
      : { kind: 'input-required', requests, state: { token: 'kept' } }
  }
const text = (said: string): ToolResult => ({ content: [{ type: 'text', text: said }] })

/** A field of what a user has filled in. */
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

/** What is asked for only where the client can be asked for it. */
const byAbility: readonly (readonly [Ability, string, InputRequest])[] = [
  ['elicitation-form', 'user_name', nameAsked],
  ['sampling', 'greeting', sampling('Generate a greeting')],
  ['roots', 'client_roots', roots],
]

async function askWhatCan(_: JsonObject, { abilities, answers }: CallContext): Promise<Outcome<ToolResult>> {
  const able = byAbility.filter(([ability]) => abilities.has(ability))
  if (answers !== undefined || able.length === 0) return toolText('nothing more to ask')
  return { kind: 'input-required', requests: Object.fromEntries(able.map(([, key, request]) => [key, request])) }
}

const message: JsonSchema = { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] }
const prompt: JsonSchema = { type: 'object', properties: { prompt: { type: 'string' } }, required: ['prompt'] }

/** Asks for one thing that an argument says, and repeats the answer. */
const repeating =
  (request: (args: JsonObject) => InputRequest, said: (response: JsonObject) => string): Tool['call'] =>
  async (args, { answers }) => {
    const answer = answers?.responses.answer
    return answer === undefined
      ? { kind: 'input-required', requests: { answer: request(args) } }
      : toolText(said(answer))
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

export const askingTools: Tool[] = [
  tool('test_input_required_result_elicitation', asking({ user_name: nameAsked }, greeting)),
  tool(
    'test_input_required_result_sampling',
    asking({ capital_question: sampling('What is the capital of France?') }, responses =>
      text(JSON.stringify(responses.capital_question?.content)),
    ),
  ),
  tool(
    'test_input_required_result_list_roots',
    asking({ client_roots: roots }, responses => text(JSON.stringify(responses.client_roots?.roots))),
  ),
  tool(
    'test_input_required_result_request_state',
    asking(confirmation, (_, state) => text(state?.token === 'kept' ? 'state-ok' : 'state lost')),
  ),
  tool(
    'test_input_required_result_multiple_inputs',
    asking({ user_name: nameAsked, greeting: sampling('Generate a greeting'), client_roots: roots }, greeting),
  ),
  tool('test_input_required_result_multi_round', multiRound),
  tool(
    'test_input_required_result_tampered_state',
    asking(confirmation, () => text('confirmed')),
  ),
  tool('test_input_required_result_capabilities', askWhatCan),
  tool('test_missing_capability', async (_, { abilities }) => {
    if (!abilities.has('sampling')) throw new CoreError({ kind: 'missing ability', required: { sampling: {} } })
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

export const askingPrompt: Prompt = {
  definition: { name: 'test_input_required_result_prompt', description: 'Fixture that asks.' },
  get: asking(
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
