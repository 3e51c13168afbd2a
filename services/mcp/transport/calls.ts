/**
 * Parses the parameters of the calls that all revisions have, and calls the core. The core receives only parameters of
 * the expected types.
 */
import { z } from 'zod'
import { ruleOf } from '../../configuration/rule.ts'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import { isObject } from '../../mcp-protocol/json-rpc.ts'
import { ArgumentsError } from '../core/arguments.ts'
import type { CallContext, Outcome } from '../core/call.ts'
import { CoreError } from '../core/errors.ts'
import type { Core } from '../core/index.ts'
import { toolError } from '../core/tool.ts'

const callMethods = ['tools/call', 'resources/read', 'prompts/get', 'completion/complete'] as const
export type CallMethod = (typeof callMethods)[number]

export const isCallMethod = (method: string): method is CallMethod =>
  (callMethods as readonly string[]).includes(method)

const maximumNameLength = 1_024
const maximumUriLength = 8_192
const name = z.string().max(maximumNameLength)
const uri = z.string().max(maximumUriLength)
/** Checks without copying, because a copy would cost more than all other checks. */
const object = z.custom<JsonObject>(isObject, 'must be an object')
const texts = z.record(z.string().max(maximumNameLength), z.string().max(1_048_576))

const schemas = {
  'tools/call': z.object({ name, arguments: object.optional() }),
  'resources/read': z.object({ uri }),
  'prompts/get': z.object({ name, arguments: texts.optional() }),
  'completion/complete': z.object({
    ref: z.discriminatedUnion('type', [
      z.object({ type: z.literal('ref/prompt'), name }),
      z.object({ type: z.literal('ref/resource'), uri }),
    ]),
    argument: z.object({ name, value: z.string().max(maximumUriLength) }),
    context: z.object({ arguments: texts.optional() }).optional(),
  }),
}

/** @throws CoreError that names the parameter and the required type */
export function parseParams<Shape>(shape: z.ZodType<Shape>, params: JsonObject): Shape {
  const { data, error } = shape.safeParse(params, { error: ruleOf })
  if (error === undefined) return data
  const [issue] = error.issues
  const at = issue?.path.join('.')
  throw new CoreError({
    kind: 'invalid params',
    problem: `${at || 'params'}: ${issue?.message ?? 'is invalid'}`,
  })
}

export type Calls = {
  /**
   * If `strictShape` is true, a missing, unknown or wrongly typed argument causes the error "invalid params". Any other
   * violation of the tool's schema causes a tool error for the model, as does any violation if `strictShape` is false.
   * @throws CoreError, or the abort reason of `context.signal`
   */
  call(method: CallMethod, params: JsonObject, context: CallContext, strictShape: boolean): Promise<Outcome<object>>
}

export function createCalls(core: Core): Calls {
  async function callTool(params: JsonObject, context: CallContext, strictShape: boolean): Promise<Outcome<object>> {
    const { name, arguments: args = {} } = parseParams(schemas['tools/call'], params)
    try {
      return await core.callTool(name, args, context)
    } catch (error) {
      if (!(error instanceof ArgumentsError)) throw error
      if (strictShape && error.isShape) throw new CoreError({ kind: 'invalid params', problem: error.message })
      return toolError(`Invalid arguments for ${name}: ${error.message}`)
    }
  }

  async function complete(params: JsonObject, context: CallContext): Promise<Outcome<object>> {
    const { ref, argument, context: more } = parseParams(schemas['completion/complete'], params)
    const { values, total } = await core.complete(
      {
        ref: ref.type === 'ref/prompt' ? { kind: 'prompt', name: ref.name } : { kind: 'template', uri: ref.uri },
        argument: argument.name,
        value: argument.value,
        chosen: more?.arguments ?? {},
      },
      context,
    )
    const completion = { values, total, hasMore: total > values.length }
    return { kind: 'result', result: { completion } }
  }

  return {
    async call(method, params, context, strictShape) {
      switch (method) {
        case 'tools/call':
          return callTool(params, context, strictShape)
        case 'resources/read':
          return core.readResource(parseParams(schemas['resources/read'], params).uri, context)
        case 'prompts/get': {
          const { name, arguments: args = {} } = parseParams(schemas['prompts/get'], params)
          return core.getPrompt(name, args, context)
        }
        case 'completion/complete':
          return complete(params, context)
      }
    },
  }
}
